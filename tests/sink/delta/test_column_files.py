"""Bulk ranges decoded by columns: the rows and statistics that Spark's decoder and writer give."""

from __future__ import annotations

import datetime as dt
import random
import re
import subprocess
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable
from pyspark import cloudpickle
from pyspark.sql import SparkSession

from tailrace_sink.columns.spec import Work
from tailrace_sink.columns.task_files import write_task
from tailrace_sink.columns.topic_messages import require_answer, shares_of, values_of
from tailrace_sink.columns.worker_process import spare_next_task
from tailrace_sink.files import range_files
from tailrace_sink.spark import executor_brokers
from tests.envelopes.source import Source
from tests.envelopes.tables import Key, Row, SourceTable, column
from tests.sink.bulk_tables import KEY, change_rows, insert_all, row_of
from tests.sink.conftest import Interrupted, Lake
from tests.sink.lake_rows import Rows
from tests.sink.tables.test_rows import change_documents, insert_versions

OURS = re.compile(r"part-[0-9a-f-]{36}\.snappy\.parquet")
"""Names of files by columns; Spark's have the number of their task."""
LARGE = {
    "local_changes_max": 0,
    "changelog": {"include": [".*"]},
    "rewrite_below_bytes": 0,
}


def rows_of(spark: SparkSession, location: str) -> Rows:
    """As Spark reads them: the timestamps of year 1, widened columns, mapped names."""
    frame = spark.read.format("delta").load(location)
    return sorted((row.asDict() for row in frame.collect()), key=repr)


def statistics(location: str) -> dict[str, Any]:
    """What the log says of all files together, by column."""
    found: dict[str, Any] = {}
    actions = pa.table(DeltaTable(location).get_add_actions(flatten=True)).to_pylist()
    for action in actions:
        for name, value in action.items():
            choose: Any = {"min": min, "max": max, "null_count": lambda both: sum(both)}.get(
                name.partition(".")[0]
            )
            # Spark has bounds of floats, of which a footer ignores NaN.
            if choose is not None and value is not None and not isinstance(value, float):
                found[name] = choose([found[name], value]) if name in found else value
    return found


@pytest.mark.kafka
@pytest.mark.slow("three batches in two lakes, by columns and by Spark")
def test_bulk_ranges_have_the_rows_and_statistics_of_sparks_way(
    source: Source, lake: Lake, monkeypatch: pytest.MonkeyPatch
):
    chance = random.Random(30)
    tables = insert_all(source, chance)
    mixed, first = tables.mixed, tables.first
    source.publish()
    by_columns, by_spark = (
        {**LARGE, "bulk_changes": bulk, "lake": f"{lake.path}/bulk-{bulk}"} for bulk in (1, 0)
    )
    for options in (by_columns, by_spark):
        lake.catch_up(**options)
    assert_same(lake, by_columns, by_spark, ["types", "line", "first"])
    for path in ("types", "line", "first", "types.changes", "documents.changes"):
        assert_same_statistics(location(by_columns, path), location(by_spark, path))

    insert_versions(source, tables.versions)
    change_documents(source, tables.documents)
    change_rows(source, mixed, chance)
    source.snapshot(mixed, [row_of(n, "a", -n) for n in range(15, 25)], op="u")
    change_rows(source, mixed, chance)
    source.publish()

    def crash(step: str, path: str) -> None:
        if step == "merged" and path.endswith("/mixed"):
            raise Interrupted

    with pytest.raises(Interrupted):
        lake.catch_up(crash, **by_columns)
    applied = DeltaTable(location(by_columns, "mixed"))
    assert applied.history(1)[0]["operation"] == "MERGE"
    lake.catch_up(**by_columns)
    lake.catch_up(**by_spark)
    assert_same(lake, by_columns, by_spark, ["types", "line", "first", "mixed", "versions"])
    assert_same(lake, by_columns, by_spark, ["documents"], by_merge=True)
    assert by_key(lake, by_columns, mixed) == mixed.rows

    for table in (mixed, first):
        change_rows(source, table, chance)
    change_documents(source, tables.documents)
    source.publish()
    # Offsets divided among tasks regardless of partitions: a key is in files of several tasks.
    monkeypatch.setattr(range_files, "whole_shares_of", shares_of)
    for options in (by_columns, by_spark):
        lake.catch_up(**options, delete_mode="soft")
    assert_same(lake, by_columns, by_spark, ["mixed", "first", "documents"], by_merge=True)


def by_key(lake: Lake, options: Mapping[str, Any], table: SourceTable) -> dict[Key, Row]:
    rows = lake.spark.read.format("delta").load(location(options, table.name.table)).collect()
    names = [of.name for of in table.schema.columns]
    found = [{name: row[name] for name in names} for row in rows]
    return {table.key_of(row): row for row in found}


def assert_same(
    lake: Lake,
    by_columns: Mapping[str, Any],
    by_spark: Mapping[str, Any],
    tables: Iterable[str],
    *,
    by_merge: bool = False,
) -> None:
    """Compare tables and their changelogs.

    Args:
        by_merge: whether Spark may have written files of a mirror: values or keys needed it.
    """
    for path in (path for table in tables for path in (table, f"{table}.changes")):
        if path == "line.changes":
            continue
        here, there = (location(options, path) for options in (by_columns, by_spark))
        assert rows_of(lake.spark, here) == rows_of(lake.spark, there), path
        ours = [bool(OURS.fullmatch(uri.rpartition("/")[2])) for uri in files(here)]
        assert all(ours) or (by_merge and not path.endswith(".changes")), path
        assert not any(OURS.fullmatch(uri.rpartition("/")[2]) for uri in files(there))


def assert_same_statistics(here: str, there: str) -> None:
    known, found = statistics(there), statistics(here)
    assert {name: found[name] for name in found if name in known} == {
        name: known[name] for name in known if name in found
    }
    assert any(name.startswith("min.") for name in found)


def location(options: Mapping[str, Any], path: str) -> str:
    return f"{options['lake']}/shop/dbo/{path}"


def files(location: str) -> list[str]:
    return DeltaTable(location).file_uris()


@pytest.mark.kafka
@pytest.mark.slow("a batch that is tried by columns, and written by Spark")
def test_where_executors_lack_pyarrow_spark_decodes(
    source: Source, lake: Lake, monkeypatch: pytest.MonkeyPatch
):
    def not_installed(*_: Any) -> Any:
        raise ModuleNotFoundError("No module named 'pyarrow'")

    monkeypatch.setattr(executor_brokers, "require_answer", not_installed)
    table = source.table("t", KEY, column(2, "at", "date"))
    source.commit(*(lambda t, n=n: t.insert(table, id=n, at=dt.date(2024, 1, 1)) for n in range(9)))
    source.publish()
    lake.catch_up(bulk_changes=1, local_changes_max=0)
    assert lake.cut() == source.cut()
    assert not any(OURS.fullmatch(uri.rpartition("/")[2]) for uri in files(lake.location("t")))


def test_executors_need_no_tailrace(tmp_path: Path):
    """Tasks are shipped by value: they import libraries and Spark's own Python only."""
    assert range_files.COUNTS == -1, "importing range_files registers its modules"
    task = tmp_path / "task"
    task.write_bytes(
        cloudpickle.dumps((write_task, Work((), ()), values_of, require_answer, spare_next_task))
    )
    program = (
        "import pickle, sys\n"
        "sys.modules |= dict.fromkeys(['tailrace_sink', 'tailrace_schemas'])\n"
        f"task, work, *_ = pickle.load(open({str(task)!r}, 'rb'))\n"
        "print(*(of.to_pylist() for of in task(work, [])))\n"
    )
    sites = [path for path in sys.path if path.endswith("site-packages")]
    run = subprocess.run(
        [sys.executable, "-I", "-S", "-c", f"import sys; sys.path += {sites!r}\n{program}"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert run.returncode == 0, run.stderr
    assert "'changes': 0" in run.stdout
