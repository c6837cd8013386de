"""Somebody else removes, restores, truncates, updates or deletes rows of lake tables."""

from __future__ import annotations

import json
import re
import shutil
import threading
from collections.abc import Callable
from itertools import count, zip_longest
from pathlib import Path

import pytest
from deltalake import DeltaTable
from pyspark.sql import SparkSession

from tailrace_sink.daemon.application import serve
from tailrace_sink.daemon.streaming import ProgressStream
from tailrace_sink.errors import LakeRowsChanged
from tailrace_sink.reading.reader import read
from tests.envelopes.source import Source
from tests.envelopes.tables import SourceTable, column
from tests.sink.conftest import Lake

pytestmark = [pytest.mark.spark, pytest.mark.kafka]
COLUMNS = (column(1, "id", "int", key=1), column(2, "v", "int"))
NEVER = threading.Event()


def removed(_: SparkSession, at: str) -> None:
    shutil.rmtree(at)


def newest_commit_removed(_: SparkSession, at: str) -> None:
    log = Path(at, "_delta_log")
    newest = max(log.glob("*.json"))
    for file in log.glob(f"*{newest.stem}*"):
        file.unlink()


def restored(spark: SparkSession, at: str) -> None:
    spark.sql(f"RESTORE TABLE delta.`{at}` TO VERSION AS OF 1")


def deleted(spark: SparkSession, at: str) -> None:
    spark.sql(f"DELETE FROM delta.`{at}` WHERE id = 2")


def emptied(spark: SparkSession, at: str) -> None:
    spark.sql(f"DELETE FROM delta.`{at}`")


def updated(spark: SparkSession, at: str) -> None:
    spark.sql(f"UPDATE delta.`{at}` SET v = -1 WHERE id = 2")


def inserted(spark: SparkSession, at: str) -> None:
    spark.sql(f"INSERT INTO delta.`{at}` SELECT * FROM delta.`{at}` WHERE id = 2")


def exchanged(spark: SparkSession, at: str) -> None:
    """Another column gets the name of one; no commit has a file."""
    for change in (
        "SET TBLPROPERTIES ('delta.columnMapping.mode' = 'name')",
        "DROP COLUMN v",
        "ADD COLUMN v INT",
    ):
        spark.sql(f"ALTER TABLE delta.`{at}` {change}")


def written_by_another_program(_: SparkSession, at: str) -> None:
    DeltaTable(at).delete("id = 2")


def optimized(spark: SparkSession, at: str) -> None:
    spark.sql(f"OPTIMIZE delta.`{at}`")


def described(spark: SparkSession, at: str) -> None:
    spark.sql(f"ALTER TABLE delta.`{at}` SET TBLPROPERTIES ('owner.team' = 'sales')")


CHANGE_ROWS: dict[Callable[[SparkSession, str], None], str] = {
    removed: "removed|there is no table",
    newest_commit_removed: "files of its log were removed",
    restored: "RESTORE",
    deleted: "DELETE",
    emptied: "DELETE",
    updated: "UPDATE",
    inserted: "WRITE",
    exchanged: "another column has the name v",
    written_by_another_program: "DELETE",
}
CHANGE_NONE = (optimized, described)


@pytest.mark.parametrize(
    "runs",
    [pytest.param(True, marks=pytest.mark.guarantee(19)), False],
    ids=["running", "restarted"],
)
@pytest.mark.slow("eleven tables of a lake, which come back with snapshots")
def test_tables_whose_rows_somebody_else_changed_stop_alone_and_come_back(
    source: Source, lake: Lake, spark: SparkSession, runs: bool
):
    found = dict(CHANGE_ROWS)
    if runs:
        del found[newest_commit_removed]  # a process does not read again what it knows
    hands = [*found, *CHANGE_NONE]
    tables = [source.table(hand.__name__, *COLUMNS) for hand in hands]
    for table in tables:
        source.commit(*(lambda t, n=n, of=table: t.insert(of, id=n, v=n) for n in range(4)))
    source.publish()
    sink = lake.sink()
    sink.open()
    stream = ProgressStream(spark, sink.config, source.registry.schema_by_id, sink)

    def carried() -> None:
        stream.catch_up(NEVER)
        sink.fold_tables(NEVER)

    carried()
    for table in tables:
        source.commit(lambda t, of=table: t.update(of, (3,), v=30))
    source.publish()
    carried()
    for hand, table in zip(hands, tables, strict=True):
        hand(lake.spark, lake.location(table.name.table))
    if not runs:
        forget_tables(spark)
    readers_name_them(lake, found, tables)
    for table in tables:
        source.commit(lambda t, of=table: t.update(of, (1,), v=10))
    source.publish()
    if runs:
        carried()
        sink.close()
    else:
        sink.close()
        forget_tables(spark)
        serve(spark, lake.config(), threading.Event(), once=True)

    last = lake.commits()[-1]
    reasons = json.loads(last["stopped"])
    for (hand, words), table in zip(found.items(), tables, strict=False):
        assert re.search(words, reasons[table.topic]), hand.__name__
        assert "take a new snapshot" in reasons[table.topic]
    assert set(last["tables"]) == {f"shop/dbo/{hand.__name__}" for hand in CHANGE_NONE}

    source.publish(snapshotting=(stopped := tables[: len(found)]))
    for table in stopped:
        source.snapshot(table, list(table.rows.values()))
    source.publish()
    lake.catch_up()
    assert lake.commits()[-1]["stopped"] == "{}"
    assert lake.cut() == source.cut()


def readers_name_them(
    lake: Lake, found: dict[Callable[[SparkSession, str], None], str], tables: list[SourceTable]
) -> None:
    """A reader looks at the tables as the next batch does, whose version it is given."""
    reader = read(lake.spark, lake.address)
    for words, table in zip_longest(found.values(), tables):
        if words is None:
            reader.require_own_rows(table.name)
            continue
        with pytest.raises(LakeRowsChanged, match=f"({words}).*take a new snapshot"):
            reader.require_own_rows(table.name)


@pytest.mark.slow("a sink ends at each step of a batch")
def test_a_batch_in_progress_is_the_sinks_own(source: Source, lake: Lake, spark: SparkSession):
    lake.options["kinds"] = {r"dbo\.t": ["mirror", "changelog", "history"]}
    table, lines = source.table("t", *COLUMNS), source.table("lines", column(1, "v", "int"))
    source.commit(*(lambda t, n=n: t.insert(table, id=n, v=n) for n in range(4)))
    source.publish()
    lake.catch_up()
    for number in count():
        source.commit(
            lambda t, n=number: t.insert(lines, v=n),
            lambda t, n=number: t.update(table, (1,), v=100 + n),
            lambda t, n=number: t.insert(table, id=10 + n, v=n),
        )
        source.publish()
        lake.break_off(number)
        forget_tables(spark)
        reader = read(lake.spark, lake.address)
        for one in (table, lines):
            reader.require_own_rows(one.name)
        if lake.commits()[-1]["through_lsn"] == source.through:
            break
    assert number > 4


def forget_tables(spark: SparkSession) -> None:
    """Read tables as a process does that starts."""
    spark._jvm.org.apache.spark.sql.delta.DeltaLog.clearCache()
