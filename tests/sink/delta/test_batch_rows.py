"""Rows of one batch are read from the files that may have them, wherever these are listed."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tailrace_sink.delta.file_log import current_snapshot, file_sizes, listed_files
from tailrace_sink.log import commit_table
from tailrace_sink.log.batch_rows import newest_row, rows_of_batch
from tailrace_sink.log.commit_table import CommitTable
from tailrace_sink.plan.sink_state import SinkState
from tailrace_sink.reading.point import Point
from tailrace_sink.spark.session import small_batch_session

MANY = 60
"""More files than a checksum file lists (Delta 4: 50)."""


@pytest.fixture
def small(spark: SparkSession) -> SparkSession:
    return small_batch_session(spark)


def append(spark: SparkSession, path: str, *batches: int) -> None:
    rows = spark.createDataFrame([(b, f"row {b}") for b in batches], "batch BIGINT, text STRING")
    rows.coalesce(1).write.format("delta").mode("append").save(path)


def texts(spark: SparkSession, path: str, batch: int) -> list[str]:
    return sorted(row["text"] for row in rows_of_batch(spark, path, batch).collect())


@pytest.mark.spark
def test_of_listed_files_only_those_are_read_that_may_have_it(small: SparkSession, tmp_path: Path):
    path = str(tmp_path / "t")
    append(small, path, 1, 2)
    append(small, path, 3)
    append(small, path, 2, 5)
    files = listed_files(small, path, current_snapshot(small, path))
    assert files is not None
    assert len(files) == 3
    assert texts(small, path, 2) == ["row 2", "row 2"]
    assert len(rows_of_batch(small, path, 1).inputFiles()) == 1
    assert texts(small, path, 4) == []
    small.sql(
        f"ALTER TABLE delta.`{path}` SET TBLPROPERTIES ('delta.enableDeletionVectors' = true)"
    )
    small.sql(f"DELETE FROM delta.`{path}` WHERE batch = 2 AND text = 'row 2'")
    assert texts(small, path, 2) == []
    assert texts(small, path, 5) == ["row 5"]


@pytest.mark.spark
def test_of_more_files_delta_finds_it(small: SparkSession, tmp_path: Path):
    path = str(tmp_path / "t")
    rows = small.range(MANY).selectExpr("id AS batch", "concat('row ', id) AS text")
    rows.repartition(MANY, "batch").write.format("delta").option("maxRecordsPerFile", 1).save(path)
    assert listed_files(small, path, current_snapshot(small, path)) is None
    assert texts(small, path, 7) == ["row 7"]


@pytest.mark.spark
def test_a_commit_table_that_was_put_back_has_the_row_that_is_there(
    small: SparkSession, tmp_path: Path
):
    path = str(tmp_path / "commits")
    commits = CommitTable(small, path)
    commits.ensure()
    context = small.sparkContext
    context.setJobGroup("new lake", "")
    assert commits.last() == SinkState()
    assert not context.statusTracker().getJobIdsForGroup("new lake"), "it is empty: no job"
    for batch in (1, 2):
        commits.append(SinkState(batch=batch), 0, 0.0)
    assert commits.last().batch == 2
    small.sql(f"DELETE FROM delta.`{path}` WHERE batch = 2")
    assert commits.last().batch == 1


@pytest.mark.spark
def test_a_commit_row_is_read_from_its_own_file_and_large_files_are_left(
    small: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    """Whatever the length of the history: the files of other rows are not there."""
    path = tmp_path / "commits"
    commits = CommitTable(small, str(path))
    commits.ensure()

    def append(*batches: int) -> None:
        for batch in batches:
            commits.append(
                SinkState(batch=batch, closed_lsn=f"{batch}", closed_commit_ms=batch), 0, 0.0
            )

    def at(point: Point) -> int | None:
        condition = f"through_lsn <= '{point.lsn}'" if point.lsn else f"batch <= {point.commit_ms}"
        row = newest_row(small, str(path), condition, point.may_be_in)
        return None if row is None else int(row["batch"])

    append(1, 2)
    commits.compact()
    (first,) = file_sizes(small, str(path), 1 << 30)
    monkeypatch.setattr(commit_table, "_LARGE_FILE", first)
    append(3, 4)
    commits.compact()
    sizes = file_sizes(small, str(path), 1 << 30)
    assert len(sizes) == 2, "the first file is large enough to be left"
    assert first in sizes
    append(5)
    assert [at(Point(lsn=lsn)) for lsn in ("5", "4", "35", "2", "0")] == [5, 4, 3, 2, None]
    assert [at(Point(commit_ms=ms)) for ms in (5, 3)] == [5, 3]

    in_use = {Path(file).name for file in small.read.format("delta").load(str(path)).inputFiles()}
    of_three = Path(rows_of_batch(small, str(path), 3).inputFiles()[0]).name
    for name in in_use - {of_three}:
        (path / name).unlink()
    assert at(Point(lsn="3")) == 3
    assert at(Point(commit_ms=4)) == 4
