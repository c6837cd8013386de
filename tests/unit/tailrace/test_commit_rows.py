"""The commit table without a JVM: a file that is not there proves that it is not opened."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import CommitProperties, DeltaTable, Transaction, write_deltalake
from deltalake.exceptions import DeltaError

from tailrace.reading.lake import CommitRows, delta_problem

APPLICATION = "tailrace-commits"


def append(path: Path, batch: int) -> None:
    now = datetime(2026, 11, 24, tzinfo=UTC)
    row = {
        "batch": batch,
        "through_lsn": f"lsn {batch}",
        "through_commit_time": now,
        "committed_at": now,
        "rows": 1,
        "tables": [("shop/dbo/t", batch)],
        "stopped": "{}",
    }
    tables = pa.map_(pa.string(), pa.int64())
    schema = pa.Table.from_pylist([row | {"tables": None}]).schema
    schema = schema.set(schema.get_field_index("tables"), pa.field("tables", tables))
    done = CommitProperties(app_transactions=[Transaction(APPLICATION, batch)])
    rows = pa.Table.from_pylist([row], schema=schema)
    write_deltalake(path, rows, mode="append", commit_properties=done)


def remove_files(path: Path) -> None:
    for file in path.glob("*.parquet"):
        file.unlink()


def test_the_newest_row_and_news_are_read_without_older_files(tmp_path: Path):
    path = tmp_path / "commits"
    commits = CommitRows(str(path))
    assert commits.newest() is None
    assert commits.read() == []
    append(path, 1)
    append(path, 3)
    assert [row.batch for row in commits.read()] == [1, 3]
    remove_files(path)
    append(path, 7)
    newest = commits.newest()
    assert newest is not None
    assert (newest.closed_lsn, newest.tables) == ("lsn 7", {"shop/dbo/t": 7})
    assert CommitRows(str(path)).newest() == newest
    assert [row.batch for row in commits.read()] == [1, 3, 7]


def test_forgotten_and_restored_rows_are_followed(tmp_path: Path):
    path = tmp_path / "commits"
    commits = CommitRows(str(path))
    for batch in (1, 3, 7):
        append(path, batch)
    assert len(commits.read()) == 3
    DeltaTable(path).delete("batch < 3")
    assert [row.batch for row in commits.read()] == [3, 7]
    DeltaTable(path).restore(1)
    assert [row.batch for row in commits.read()] == [1, 3]
    newest = commits.newest()
    assert newest is not None
    assert newest.batch == 3, "the transaction version is that of a row that is gone"


@pytest.mark.parametrize("table", ["there", "missing"])
def test_a_table_without_rows_has_none(tmp_path: Path, table: str):
    path = tmp_path / "commits"
    if table == "there":
        append(path, 1)
        DeltaTable(path).delete()
    assert CommitRows(str(path)).newest() is None
    assert CommitRows(str(path)).read() == []


def test_a_file_that_cannot_be_read_is_an_error_of_the_system(tmp_path: Path):
    path = tmp_path / "commits"
    append(path, 1)
    remove_files(path)
    with pytest.raises(OSError, match="No such file"):
        CommitRows(str(path)).read()


def test_what_deltalake_says_of_a_store_becomes_one_line():
    mark = "\x1b[31m↳\x1b[0m"
    error = DeltaError(
        f"Kernel error -> Generic S3 error\n   {mark} Error performing GET http://s3/lake\n"
        f"    {mark} Connection refused (os error 111)\n"
    )
    assert delta_problem(error) == (
        "Kernel error -> Generic S3 error: Error performing GET http://s3/lake:"
        " Connection refused (os error 111)"
    )
