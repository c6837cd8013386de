"""Records that are no changes of their table: it stops alone, or goes on without them."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from tailrace import lake as without_spark
from tailrace.lake.errors import NeedsSpark
from tailrace.reading.lake import dead_letters
from tailrace_service.registry.client import RegistryRejected
from tailrace_sink.daemon.sink import Sink
from tailrace_sink.delta.tables import DeltaFormat
from tailrace_sink.errors import BadRecordRefused
from tailrace_sink.log.commit_table import CommitTable
from tailrace_sink.log.log_table import LogTable
from tailrace_sink.log.schema_store import SchemaStore
from tailrace_sink.log.sink_parts import SinkParts
from tailrace_sink.reading.cut_errors import CutUnknown
from tailrace_sink.reading.reader import read
from tailrace_sink.tables.lake_table import DELETES_PROPERTY
from tailrace_sink.upkeep import old_data
from tailrace_sink.upkeep.old_data import OldData
from tailrace_sink.watch.metrics import SinkMetrics
from tailrace_sink.watch.traces import SinkTraces
from tests.envelopes.messages import Message
from tests.envelopes.source import Source
from tests.envelopes.tables import SourceTable, column
from tests.sink.conftest import Interrupted, Lake
from tests.sink.intake.test_log import GO_ON, stream_of
from tests.sink.reading.test_as_of import rows, rows_by_spark
from tests.sink.tables.test_lake_layout import properties

pytestmark = [pytest.mark.spark, pytest.mark.kafka]

KEY = column(1, "id", "int", key=1)
ASIDE: dict[str, Any] = {"on_bad_record": "dead-letter"}


def two_tables(source: Source) -> tuple[SourceTable, SourceTable]:
    """Both with some rows that are published."""
    tables = tuple(source.table(n, KEY, column(2, "v", "smallint")) for n in ("bad", "good"))
    for table in tables:
        source.commit(*(lambda t, n=n, of=table: t.insert(of, id=n, v=n) for n in range(4)))
    source.publish()
    return tables[0], tables[1]


def messages(source: Source, table: SourceTable) -> list[Message]:
    return [m for m in source.pending if m.topic == table.topic and m.value is not None]


def cut_short(message: Message) -> None:
    """The broker's copy is damaged: the ledger counts what was sent."""
    assert message.value is not None
    message.value = message.value[:9]


@pytest.mark.slow("three batches read table by table, and a cut with the log's tail")
def test_a_record_that_cannot_be_decoded_stops_its_table_alone(source: Source, lake: Lake):
    """In a batch that is read table by table; the next test's is read at once."""
    local_changes_max = 0
    bad, good = two_tables(source)
    lake.catch_up(local_changes_max=local_changes_max)
    source.commit(
        lambda t: t.insert(bad, id=8, v=8),
        lambda t: t.insert(bad, id=9, v=9),
        lambda t: t.insert(good, id=9, v=9),
    )
    cut_short(messages(source, bad)[1])
    source.publish()
    lake.log_only()

    cut = read(lake.spark, f"{lake.path}/lake").as_of("latest")
    assert rows(cut, good) == source.cut()["good"]
    with pytest.raises(CutUnknown, match=r"topic .*bad partition \d offset \d+ is no change of it"):
        cut.read(bad.name)
    assert set(cut.create_views("seen_")) == {good.name}

    lake.catch_up(local_changes_max=local_changes_max)
    assert sorted(row["id"] for row in lake.rows("good")) == [0, 1, 2, 3, 9]
    assert sorted(row["id"] for row in lake.rows("bad")) == [0, 1, 2, 3]
    commit = lake.commits()[-1]
    assert set(commit["tables"]) == {"shop/dbo/good"}
    stopped = json.loads(commit["stopped"])[bad.topic]
    assert "it cannot be decoded with its writer schema" in stopped
    assert "tailrace snapshot" in stopped

    source.snapshot(bad, list(bad.rows.values()))
    source.publish(snapshotting=[bad])
    source.publish(through=str(source.next_lsn()))
    lake.catch_up(local_changes_max=local_changes_max)
    assert lake.cut() == source.cut()
    assert lake.commits()[-1]["stopped"] == "{}"


@pytest.mark.slow("four starts of a sink, one of which breaks off")
def test_bad_records_are_put_aside_once_and_the_rest_goes_on(
    source: Source, lake: Lake, monkeypatch: pytest.MonkeyPatch
):
    options = {**ASIDE, "local_changes_max": 5_000}
    bad, good = two_tables(source)
    lake.catch_up(**options)
    expected = {key: dict(row) for key, row in bad.rows.items()}
    source.commit(
        lambda t: t.delete(bad, (3,)),
        lambda t: t.insert(bad, id=8, v=70_000),  # more than a smallint: Spark's cast fails
        lambda t: t.insert(bad, id=9, v=9),
        lambda t: t.insert(good, id=9, v=9),
    )
    expected[(9,)] = {"id": 9, "v": 9}
    cut_short(messages(source, bad)[0])
    lsn = source.through
    source.publish()
    lake.log_only(**options)
    cut = read(lake.spark, f"{lake.path}/lake").as_of("latest")
    assert rows_by_spark(cut, bad) == expected
    with pytest.raises(NeedsSpark, match=r"table shop\.dbo\.bad .* does not fit int16"):
        without_spark.open(lake.address).as_of().read(bad.name)
    assert rows(cut, good) == source.cut()["good"]

    def crash(step: str, path: str) -> None:
        if step == "merged" and path == "shop/dbo/bad":
            raise Interrupted

    with pytest.raises(Interrupted):
        lake.catch_up(crash, **options)
    sink = lake.sink(**options)
    try:
        sink.open()
        sink.fold_tables(GO_ON)
    finally:
        sink.close()
    assert lake.cut()["bad"] == expected
    assert lake.cut()["good"] == source.cut()["good"]
    assert lake.commits()[-1]["stopped"] == "{}"
    letters = read(lake.spark, f"{lake.path}/lake").dead_letters().collect()
    assert sorted((row["table"], row["reason"]) for row in letters) == [
        (
            "shop.dbo.bad",
            f"it cannot be decoded with its writer schema {bad.value_schema_id}",
        ),
        ("shop.dbo.bad", "the value of column v is no smallint"),
    ]
    assert all(row["lsn"] > lsn and row["topic"] == bad.topic for row in letters)
    assert all(bytes(row["key"])[0] == 0 for row in letters), "framed, as they came"
    assert {row["schema_id"] for row in letters} == {bad.value_schema_id}
    assert dead_letters(lake.config().dead_letters_path) == {bad.topic: 2}

    # The delete of 3 is among them, so its row stays: when 3 comes again it is not there twice.
    assert properties(lake, "bad")[DELETES_PROPERTY] == "unknown"
    source.commit(lambda t: t.insert(bad, id=3, v=33))
    source.publish()
    lake.catch_up(**options)
    assert lake.cut()["bad"] == {**expected, (3,): {"id": 3, "v": 33}}
    check_vacuum(lake, monkeypatch)
    assert read(lake.spark, f"{lake.path}/lake").dead_letters().collect() == letters


def check_vacuum(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file of a write that failed leaves the folder of the dead letters after a week."""
    config, day_ms = lake.config(), 86_400_000
    monkeypatch.setattr(old_data, "_OWN", ("_tailrace/dead_letters",))
    spark = lake.spark
    log = LogTable(spark, config.log_path, config.prefix)
    schemas = SchemaStore(
        spark, config.log_path, config.schemas_path, lake.source.registry.schema_by_id
    )
    metrics, traces = SinkMetrics(), SinkTraces(config)
    parts = SinkParts(spark, config, DeltaFormat(config), log, schemas, metrics, traces)
    old = OldData(spark, parts, CommitTable(spark, config.commits_path))
    left = Path(config.dead_letters_path, "part-left.parquet")
    left.write_bytes(b"of a write that failed")
    os.utime(left, (0, 0))
    now_ms = round(time.time() * 1000)
    assert not old.tend([], now_ms), "seen for the first time today"
    assert old.tend([], now_ms + 6 * day_ms)
    assert left.exists()
    assert old.tend([], now_ms + 13 * day_ms)
    assert not left.exists()


@pytest.mark.guarantee(19)
def test_a_schema_that_nobody_has_is_put_aside_and_foreign_records_too(
    source: Source, lake: Lake, spark: SparkSession
):
    bad, good = two_tables(source)
    first = bad.value_schema_id
    source.alter(bad, KEY, column(2, "v", "smallint"), column(3, "more", "int"))
    gone = bad.value_schema_id
    source.commit(lambda t: t.insert(bad, id=7, v=7, more=7), lambda t: t.insert(good, id=7, v=7))
    source.publish()

    def without(schema_id: int) -> dict[str, Any]:
        if schema_id == gone:
            raise RegistryRejected(f"id {schema_id}", 404, "not found", "register it")
        return source.registry.schema_by_id(schema_id)

    sink = Sink(spark, lake.config(**ASIDE), without)
    try:
        sink.open()
        stream_of(spark, source, sink).catch_up(GO_ON)
        sink.fold_tables(GO_ON)
        counted = sink.metrics.dead_letters.labels(table="shop.dbo.bad")._value.get()
    finally:
        sink.close()
    assert counted == 1
    assert lake.commits()[-1]["stopped"] == "{}"
    assert lake.cut()["good"] == source.cut()["good"]
    assert sorted(lake.cut()["bad"]) == [(0,), (1,), (2,), (3,)]
    (letter,) = read(lake.spark, f"{lake.path}/lake").dead_letters().collect()
    assert (letter["schema_id"], gone != first) == (gone, True)
    assert f"the registry does not have schema {gone}" in letter["reason"]


@pytest.mark.slow("two starts of a sink on a lake of its own")
def test_the_sink_ends_where_it_is_told_to(source: Source, lake: Lake):
    bad, _ = two_tables(source)
    lake.catch_up(on_bad_record="fail")
    source.commit(lambda t: t.insert(bad, id=9, v=9))
    cut_short(messages(source, bad)[0])
    source.publish()

    with pytest.raises(BadRecordRefused, match=r"topic .*bad partition \d offset \d+"):
        lake.catch_up(on_bad_record="fail")
    assert len(lake.commits()) == 1
