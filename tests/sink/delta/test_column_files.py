"""Bulk ranges decoded by columns: the rows and statistics that Spark's decoder and writer give."""

from __future__ import annotations

import datetime as dt
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable
from pyspark import cloudpickle
from pyspark.sql import SparkSession

from tailrace_sink.columns.spec import Work
from tailrace_sink.columns.task_files import write_task
from tailrace_sink.columns.topic_messages import require_answer, values_of
from tailrace_sink.columns.worker_process import spare_next_task
from tailrace_sink.delta import column_files
from tests.envelopes.source import Source
from tests.envelopes.tables import column
from tests.sink.conftest import Lake
from tests.sink.lake_rows import Rows
from tests.sink.tables.test_rows import change_documents, insert_types, insert_versions

KEY = column(1, "id", "int", key=1)
OURS = re.compile(r"part-[0-9a-f-]{36}\.snappy\.parquet")
"""Names of files by columns; Spark's have the number of their task."""
LARGE = {"local_changes_max": 0, "changelog": {"include": [".*"]}}


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
@pytest.mark.slow("two batches in two lakes, by columns and by Spark")
def test_bulk_ranges_have_the_rows_and_statistics_of_sparks_way(source: Source, lake: Lake):
    insert_types(source)
    keyless = source.table("line", column(1, "n", "int"), column(2, "text", "nvarchar(max)"))
    source.commit(lambda t: t.insert(keyless, n=1, text="x" * 30), lambda t: t.insert(keyless, n=2))
    versions = source.table(
        "versions", KEY, column(2, "small", "int"), column(3, "name", "varchar(10)")
    )
    source.commit(lambda t: t.insert(versions, id=0, small=0, name="zero"))
    documents = source.table(
        "documents",
        KEY,
        column(2, "body", "nvarchar(max)"),
        column(3, "scan", "varbinary(max)"),
        column(4, "views", "int"),
    )
    source.commit(
        *(
            lambda t, n=n: t.insert(documents, id=n, body=f"b{n}", scan=b"s", views=0)
            for n in range(6)
        )
    )
    source.publish()
    by_columns, by_spark = (
        {**LARGE, "bulk_changes": bulk, "lake": f"{lake.path}/bulk-{bulk}"} for bulk in (1, 0)
    )
    for options in (by_columns, by_spark):
        lake.catch_up(**options)
    insert_versions(source, versions)
    change_documents(source, documents)
    source.publish()
    for options in (by_columns, by_spark):
        lake.catch_up(**options)

    for table in ("types", "line", "versions", "documents"):
        for path in (table, f"{table}.changes"):
            here, there = (
                f"{options['lake']}/shop/dbo/{path}" for options in (by_columns, by_spark)
            )
            if path == "line.changes":
                continue
            assert rows_of(lake.spark, here) == rows_of(lake.spark, there), path
            ours = [bool(OURS.fullmatch(uri.rpartition("/")[2])) for uri in files(here)]
            # An upsert is written by Spark in both; it writes all documents again, in one file.
            assert all(ours) or path in {"documents", "versions"}
            assert any(ours) or path == "documents"
            assert not any(OURS.fullmatch(uri.rpartition("/")[2]) for uri in files(there))
            if all(ours):
                known = statistics(there)
                assert {n: v for n, v in statistics(here).items() if n in known} == {
                    n: v for n, v in known.items() if n in statistics(here)
                }
                assert any(name.startswith("min.") for name in statistics(here))


def files(location: str) -> list[str]:
    return DeltaTable(location).file_uris()


@pytest.mark.kafka
@pytest.mark.slow("a batch that is tried by columns, and written by Spark")
def test_where_executors_lack_pyarrow_spark_decodes(
    source: Source, lake: Lake, monkeypatch: pytest.MonkeyPatch
):
    def not_installed(*_: Any) -> Any:
        raise ModuleNotFoundError("No module named 'pyarrow'")

    monkeypatch.setattr(column_files, "require_answer", not_installed)
    table = source.table("t", KEY, column(2, "at", "date"))
    source.commit(*(lambda t, n=n: t.insert(table, id=n, at=dt.date(2024, 1, 1)) for n in range(9)))
    source.publish()
    lake.catch_up(bulk_changes=1, local_changes_max=0)
    assert lake.cut() == source.cut()
    assert not any(OURS.fullmatch(uri.rpartition("/")[2]) for uri in files(lake.location("t")))


def test_executors_need_no_tailrace(tmp_path: Path):
    """Tasks are shipped by value: they import libraries and Spark's own Python only."""
    assert column_files.COUNTS == -1, "importing column_files registers its modules"
    task = tmp_path / "task"
    task.write_bytes(
        cloudpickle.dumps((write_task, Work((), ()), values_of, require_answer, spare_next_task))
    )
    program = (
        "import pickle, sys\n"
        "sys.modules |= dict.fromkeys(['tailrace_sink', 'tailrace_schemas'])\n"
        f"task, work, *_ = pickle.load(open({str(task)!r}, 'rb'))\n"
        "found = task(work, [])\n"
        "print(found.to_pylist())\n"
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
