"""Appends and MERGEs by what the ledger counts, on small batches and on large ones."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any
from urllib.parse import urlparse

import pytest
from deltalake import DeltaTable
from pyspark.sql import SparkSession

from tailrace_sink.spark.session import small_batch_session
from tests.envelopes.source import Source
from tests.envelopes.tables import SourceTable, column
from tests.sink.conftest import Lake
from tests.sink.stories import Stories, Story

KEY = column(1, "id", "int", key=1)
LARGE: dict[str, Any] = {"local_changes_max": 0}
BULK: dict[str, Any] = {**LARGE, "bulk_changes": 1}
shared = Stories(small={}, large=LARGE, bulk=BULK)


def ways(lake: Lake, table: str) -> list[str]:
    """What the commits with rows were, oldest first."""
    newest_first = [commit["operation"] for commit in DeltaTable(lake.location(table)).history()]
    return [operation for operation in reversed(newest_first) if operation in {"WRITE", "MERGE"}]


def insert(source: Source, table: SourceTable, *numbers: int) -> None:
    source.commit(*(lambda t, n=n: t.insert(table, id=n, v=n) for n in numbers))


@shared
def test_creates_alone_are_appended_and_everything_else_is_merged(
    source: Source, lake: Lake
) -> Story:
    table = source.table("created", KEY, column(2, "v", "int"))
    insert(source, table, 1, 2)
    source.commit(lambda t: t.update(table, (1,), v=10), lambda t: t.delete(table, (2,)))
    yield
    insert(source, table, *range(2, 30))
    yield
    assert ways(lake, "created") == ["WRITE", "WRITE"]
    source.commit(lambda t: t.update(table, (5,), v=0), lambda t: t.delete(table, (6,)))
    insert(source, table, 100)
    yield
    assert ways(lake, "created") == ["WRITE", "WRITE", "MERGE"]
    assert lake.by_key(table) == table.rows


@shared.only("small", "large")
def test_a_partial_snapshot_takes_no_row_away(source: Source, lake: Lake) -> Story:
    table = source.table("partial", KEY, column(2, "v", "int"))
    insert(source, table, *range(6))
    yield
    source.commit(lambda t: t.update(table, (5,), v=50))
    # No record names the table: 7 was left out by the first snapshot, 3 is as it was.
    source.snapshot(table, [{"id": 3, "v": 3}, {"id": 7, "v": 7}])
    yield
    assert lake.by_key(table) == table.rows
    assert {row["id"]: row["v"] for row in lake.rows("partial")} == {
        **{n: n for n in range(5)},
        5: 50,
        7: 7,
    }


@shared
def test_a_snapshot_into_a_new_table_is_appended_though_rows_may_have_come_twice(
    source: Source, lake: Lake
) -> Story:
    once, twice = (source.table(name, KEY, column(2, "v", "int")) for name in ("once", "twice"))
    rows = [{"id": n, "v": n} for n in range(40)]
    source.snapshot(once, rows)
    source.snapshot(twice, rows[:20])
    source.snapshot(twice, rows)  # it began again
    source.publish(snapshotting=[once, twice])
    yield
    assert (lake.by_key(once), lake.by_key(twice)) == (once.rows, twice.rows)
    assert (ways(lake, "once"), ways(lake, "twice")) == (["WRITE"], ["WRITE"])
    assert len(lake.rows("twice")) == 40


@pytest.mark.slow("a crash and a further attempt, for a new table and for one with rows")
def test_an_appended_batch_is_there_once_whatever_is_published_after_a_crash(
    source: Source, lake: Lake
):
    table = source.table("t", KEY, column(2, "v", "int"))
    for number in range(2):
        insert(source, table, number)
        source.publish()

        def crash(step: str, _path: str) -> None:
            if step == "merged":
                raise KeyboardInterrupt

        with pytest.raises(KeyboardInterrupt):
            lake.catch_up(crash)
        insert(source, table, number + 100)
        source.publish()
        lake.catch_up()
        assert lake.cut() == source.cut()
        assert len(lake.rows("t")) == len(source.cut()["t"])


def test_keys_of_soft_deletes_are_merged_also_when_deletes_are_hard_again(
    source: Source, lake: Lake
):
    table = source.table("t", KEY, column(2, "v", "int"))
    insert(source, table, 1, 2)
    source.publish()
    lake.catch_up(delete_mode="soft")
    source.commit(lambda t: t.delete(table, (1,)))
    source.publish()
    lake.catch_up(delete_mode="soft")
    insert(source, table, 1)
    source.publish()
    lake.catch_up()
    assert sorted(row["id"] for row in lake.rows("t")) == [1, 2]


@shared.only("small", "large")
def test_a_merge_reads_only_files_with_keys_between_those_that_changed(
    source: Source, lake: Lake
) -> Story:
    table = source.table(
        "ranged", KEY, column(2, "name", "varchar(20)", key=2), column(3, "v", "int")
    )
    for first in (100, 200):
        source.commit(
            *(
                lambda t, n=n: t.insert(table, id=n, name=f"n{n}", v=n)
                for n in range(first, first + 5)
            )
        )
        yield
    source.commit(
        lambda t: t.update(table, (101, "n101"), v=0), lambda t: t.delete(table, (103, "n103"))
    )
    frame = lake.spark.read.format("delta").load(lake.location("ranged"))
    others = {Path(urlparse(file).path) for file in frame.where("id >= 200").inputFiles()}
    assert others
    for file in others:
        file.rename(f"{file}.away")
    yield
    for file in others:
        Path(f"{file}.away").rename(file)
    assert lake.by_key(table) == table.rows
    assert ways(lake, "ranged")[-1] == "MERGE"


@pytest.mark.slow("four large batches, whose generated code is compiled")
def test_a_batch_like_the_one_before_compiles_nothing_anew(source: Source, lake: Lake):
    # Columns that no other test has: what it compiles first is not there from another.
    rare = column(3, "d", "decimal(17, 11)"), column(4, "n", "smallint")
    table = source.table("t", KEY, column(2, "v", "int"), *rare)
    insert(source, table, *range(1000, 1020))
    source.publish()
    lake.catch_up(**LARGE)
    compiled = []
    for number in range(3):
        source.commit(lambda t, n=number: t.update(table, (1003 + n,), v=0))
        source.publish()
        before = generated_classes(lake.spark)
        lake.catch_up(**LARGE)
        compiled.append(generated_classes(lake.spark) - before)
    assert compiled[0] > 0
    assert compiled[-1] == 0
    assert lake.cut() == source.cut()


def generated_classes(spark: SparkSession) -> int:
    """How many classes Spark has generated in this JVM."""
    metrics = spark._jvm.org.apache.spark.metrics.source.CodegenMetrics  # type: ignore[union-attr]
    return int(metrics.METRIC_COMPILATION_TIME().getCount())


def test_large_values_of_few_changes_do_not_pass_the_driver(source: Source, lake: Lake):
    table = source.table("t", KEY, column(2, "body", "nvarchar(max)"))
    for size in (10, 200_000):
        body = "x" * size
        source.commit(
            *(lambda t, n=n, body=body: t.insert(table, id=n, body=body) for n in (size, size + 1))
        )
        source.commit(lambda t, key=(size,), body=body: t.update(table, key, body=f"{body}y"))
        source.publish()
        lake.catch_up(local_bytes_max=100_000)
    assert lake.cut() == source.cut()


@pytest.mark.slow("OPTIMIZE runs all the time, beside batch after batch")
def test_optimize_in_a_loop_beside_the_sink_is_neither_an_error_nor_a_loss(
    source: Source, lake: Lake, spark: SparkSession
):
    table = source.table("t", KEY, column(2, "v", "int"))
    insert(source, table, *range(20))
    source.publish()
    lake.catch_up()
    stop, runs = threading.Event(), 0
    session = small_batch_session(spark)

    def optimize() -> None:
        nonlocal runs
        while not stop.is_set():
            session.sql(f"OPTIMIZE delta.`{lake.location('t')}`")
            runs += 1

    thread = threading.Thread(target=optimize)
    thread.start()
    try:
        for number in range(2):
            source.commit(
                *(lambda t, n=n, v=number: t.update(table, (n,), v=v) for n in range(20)),
                lambda t, n=number: t.insert(table, id=100 + n, v=n),
            )
            source.publish()
            assert lake.catch_up() == 1, "in place, without opening the lake again"
    finally:
        stop.set()
        thread.join(120)
    assert not thread.is_alive()
    assert runs > 0
    assert lake.cut() == source.cut()
