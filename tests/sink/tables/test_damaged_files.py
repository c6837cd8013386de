"""Files of lake tables are missing or damaged: a snapshot brings each back, or says what does."""

from __future__ import annotations

import json
import re
import shutil
import threading
from pathlib import Path
from typing import Any

import pytest
from pyarrow.fs import LocalFileSystem
from pyspark.sql import SparkSession

from tailrace_sink.daemon.application import serve
from tailrace_sink.reading.reader import read
from tests.envelopes.source import Source
from tests.envelopes.tables import SourceTable, column
from tests.file_damage import OF_DELTA, TableFiles
from tests.sink.conftest import Lake
from tests.sink.tables.test_foreign_hands import forget_tables

pytestmark = [pytest.mark.spark, pytest.mark.kafka]
COLUMNS = (column(1, "id", "int", key=1), column(2, "v", "int"))
ROWS = 500
FEW_TRIES: dict[str, Any] = {"apply_attempts": 3, "retry_backoff_max_s": 0.25}
OPTIONS = FEW_TRIES | {"rewrite_below_bytes": 0}
OF_LOG = {"log_file_missing", "log_file_truncated", "checkpoint_truncated"}
"""Damage after which a table does not show its files, which a new version would remove."""


@pytest.mark.guarantee(19)
@pytest.mark.slow("tables of a lake are damaged, and come back with snapshots")
def test_tables_whose_files_are_damaged_come_back(source: Source, lake: Lake, spark: SparkSession):
    tables = {name: source.table(name, *COLUMNS) for name in (*OF_DELTA, "sound")}
    for table in tables.values():
        source.commit(*(lambda t, n=n, of=table: t.insert(of, id=n, v=n) for n in range(ROWS)))
    source.publish()
    lake.catch_up(**OPTIONS)
    first = source.through
    for number in range(4):
        for table in tables.values():
            source.commit(lambda t, of=table, n=number: t.update(of, (n,), v=100 + n))
        source.publish()
        lake.catch_up(**OPTIONS)
        if number == 2:
            checkpoint(lake, "checkpoint_truncated")
    for name, damage in OF_DELTA.items():
        damage(TableFiles(LocalFileSystem(), (lake.location(name),)))
    for table in tables.values():
        source.commit(lambda t, of=table: t.update(of, (9,), v=9))
    source.publish()
    forget_tables(spark)

    run(lake, spark)
    for name, reason in stopped(lake).items():
        assert re.search("failed in [23] attempts", reason), reason
        assert "take a new snapshot of the source table" in reason, name
        assert ("move the folder" in reason) == (name in OF_LOG), reason

    damaged = [table for name, table in tables.items() if name != "sound"]
    snapshots(source, damaged)
    run(lake, spark)
    reasons = stopped(lake)
    assert "log_file_missing" in reasons
    assert set(reasons) <= OF_LOG, reasons
    for reason in reasons.values():
        folder = re.search(r"move the folder (\S+) away", reason)
        assert folder is not None, reason
        shutil.move(folder[1], lake.path / Path(folder[1]).name)
    snapshots(source, [tables[name] for name in reasons])
    run(lake, spark)

    assert stopped(lake) == {}
    forget_tables(spark)
    assert lake.cut() == source.cut()
    reader = read(lake.spark, lake.address)
    for name in ("data_file_missing", "data_file_truncated", "vector_missing", "vector_flipped"):
        rows = reader.as_of(lsn=first).read(tables[name].name).collect()
        assert {row["id"]: row["v"] for row in rows} == {n: n for n in range(ROWS)}, name


def checkpoint(lake: Lake, table: str) -> None:
    """Write a checkpoint of a table's log; the sink does so after a hundred commits."""
    jvm: Any = lake.spark._jvm
    log = jvm.org.apache.spark.sql.delta.DeltaLog
    log.forTable(lake.spark._jsparkSession, lake.location(table)).checkpoint()


def run(lake: Lake, spark: SparkSession, options: dict[str, Any] = OPTIONS) -> None:
    """Apply what was published, as a sink does that is started and ended."""
    serve(spark, lake.config(**options), threading.Event(), once=True)


def stopped(lake: Lake) -> dict[str, str]:
    """The reasons of stopped tables, by the table's name."""
    found = json.loads(lake.commits()[-1]["stopped"])
    return {topic.rpartition(".")[2]: reason for topic, reason in found.items()}


def snapshots(source: Source, tables: list[SourceTable]) -> None:
    source.publish(snapshotting=tables)
    for table in tables:
        source.snapshot(table, list(table.rows.values()))
    source.publish()


@pytest.mark.guarantee(19)
@pytest.mark.slow("a companion of a table is damaged, removed as advised, and starts anew")
def test_a_damaged_companion_is_named_and_starts_anew(
    source: Source, lake: Lake, spark: SparkSession
):
    """No snapshot has the past intervals of a history, so nothing replaces it."""
    options = OPTIONS | {"kinds": {r"dbo\.t": ["mirror", "changelog", "history"]}}
    table, other = source.table("t", *COLUMNS), source.table("other", *COLUMNS)
    for number in range(ROWS):
        source.commit(lambda t, n=number: t.insert(table, id=n, v=n))
    source.publish()
    lake.catch_up(**options)
    OF_DELTA["data_file_missing"](TableFiles(LocalFileSystem(), (lake.location("t.history"),)))
    source.commit(lambda t: t.update(table, (9,), v=9_000), lambda t: t.insert(other, id=1, v=1))
    source.publish()
    forget_tables(spark)
    run(lake, spark, options)
    (reason,) = stopped(lake).values()
    folder = re.search(r"move the folder (\S+) away", reason)
    assert folder is not None, reason
    assert folder[1].endswith("/t.history"), reason

    shutil.move(folder[1], lake.path / "moved")
    snapshots(source, [table])
    run(lake, spark, options)
    assert stopped(lake) == {}
    forget_tables(spark)
    assert lake.cut() == source.cut()
    source.commit(lambda t: t.update(table, (9,), v=9_001))
    source.publish()
    run(lake, spark, options)
    newest = read(lake.spark, lake.address).as_of("latest")
    intervals = newest.read(table.name, is_history=True).where("id = 9").orderBy("_cdc_position")
    assert [row["v"] for row in intervals.collect()] == [9_000, 9_001]
