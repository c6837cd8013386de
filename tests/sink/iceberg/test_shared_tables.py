"""Several source tables in one Iceberg table: the version of a cut is that of its last source."""

from __future__ import annotations

import json
import random
import threading
import uuid
from collections.abc import Mapping
from contextlib import closing
from dataclasses import replace
from typing import Any

import pytest

from tailrace_sink import read
from tailrace_sink.daemon.sink import Sink
from tailrace_sink.daemon.streaming import ProgressStream
from tailrace_sink.reading.cut import Cut
from tests.envelopes.source import Source
from tests.envelopes.tables import Key, Row, SourceTable, column
from tests.sink.conftest import Lake
from tests.sink.iceberg.conftest import CatalogServer
from tests.sink.iceberg.test_cuts import once_is_enough
from tests.sink.random_tables import change, expected, listed, snapshot

pytestmark = [
    pytest.mark.spark,
    pytest.mark.kafka,
    pytest.mark.parametrize("lake", ["s3"], indirect=True),
]

KEY = column(1, "id", "int", key=1)
VALUE = column(2, "v", "int")
SHARED = "all.orders"
Sources = dict[str, dict[Key, Row]]


def by_source(rows: list[dict[str, Any]]) -> Sources:
    """The rows of a shared table by source and key."""
    found: Sources = {}
    for row in rows:
        own = found.setdefault(row["_cdc_table"], {})
        assert own.setdefault((row["id"],), {n: row[n] for n in ("id", "v")})
    assert sum(map(len, found.values())) == len(rows), "a key is there twice"
    return found


def of_cut(cut: Cut, name: str = SHARED) -> Sources:
    return by_source([row.asDict() for row in cut.read(name).collect()])


def rows_of(*tables: SourceTable) -> Sources:
    return {table.name.table: table.rows for table in tables if table.rows}


def fold(lake: Lake, sink: Sink) -> None:
    """One sink continues: its branches are not set back, as at a start."""
    schema_by_id = lake.source.registry.schema_by_id
    ProgressStream(lake._sink_spark, sink.config, schema_by_id, sink).catch_up(threading.Event())
    sink.fold_tables(threading.Event())


@pytest.mark.slow("random changes of two sources in three tables, and kills")
def test_sources_of_one_table_move_together(
    source: Source, lake: Lake, server: CatalogServer, monkeypatch: pytest.MonkeyPatch
):
    once_is_enough(monkeypatch)
    chance, space = random.Random(77), f"into_{uuid.uuid4().hex[:8]}"
    catalog: Mapping[str, Any] = {"namespace": space, "data": f"{server.options['data']}/{space}"}
    lake.options |= {
        "format": "iceberg",
        "iceberg": server.options | catalog,
        "into": {r"dbo\.orders_.*": SHARED},
        "kinds": {r"all\..*": ["mirror", "changelog", "history"]},
    }

    def newest() -> Cut:
        return read(lake.spark, lake.address).as_of("latest")

    def bare(name: str = "orders") -> list[dict[str, Any]]:
        return [row.asDict() for row in lake.spark.table(f"tailrace.{space}.{name}").collect()]

    a, b = source.table("orders_a", KEY, VALUE), source.table("orders_b", KEY, VALUE)
    with closing(lake.sink()) as sink:
        sink.open()
        for number in range(3):
            change(source, a, chance)
            change(source, b, chance)
            source.publish()
            if number == 1:
                snapshot(source, a, chance, names_it_first=False)
            fold(lake, sink)
            assert of_cut(newest()) == by_source(bare()) == rows_of(a, b), number
            intervals = listed(newest().read(SHARED, is_history=True), "_cdc_table")
            for table in (a, b):
                own = [row[:-1] for row in intervals if row[-1] == table.name.table]
                assert own == expected(source, table, "", source.through), number

        # A key that may be NULL here stops its source, which has staged its part of the companion.
        # The next source reads the table again, and keeps what the one before it has staged.
        may_lack = source.table("orders_ab", replace(KEY, nullable=True), VALUE)
        change(source, a, chance)
        change(source, b, chance)
        source.commit(lambda t: t.insert(may_lack, id=None, v=1))
        source.publish()
        fold(lake, sink)
        assert list(json.loads(lake.commits()[-1]["stopped"])) == [may_lack.topic]
        assert of_cut(newest()) == rows_of(a, b)
        change(source, a, chance)
        source.publish()
        fold(lake, sink)
        assert of_cut(newest()) == by_source(bare()) == rows_of(a, b)
        assert {"orders_a", "orders_b"} <= {row["_cdc_table"] for row in bare("orders__changes")}

    # Killed after each source of a batch: nobody sees one of them alone.
    before = by_source(bare())
    change(source, a, chance)
    change(source, b, chance)
    source.publish()
    lake.log_only()
    for at in (3, 4):
        lake.break_off(at)
        assert by_source(bare()) == before, at
        assert of_cut(newest()) == rows_of(a, b), "the log has it"

    # One moves to a table of its own, and its rows leave the shared one.
    lake.options["into"] = {r"dbo\.orders_[bz]": SHARED}
    source.publish(snapshotting=[a])
    source.publish(through=source.snapshot(a, list(a.rows.values())))
    lake.catch_up()
    assert of_cut(newest()) == by_source(bare()) == rows_of(b)
    own = {(row["id"],): {n: row[n] for n in ("id", "v")} for row in bare("orders_a")}
    assert own == a.rows
