"""What leaves a table's storage, and what stays for its oldest version that is read."""

from __future__ import annotations

import time
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tailrace_sink.delta.file_log import files_to_compact
from tailrace_sink.delta.old_files import TableLog, vacuum
from tailrace_sink.delta.table_maintenance import DELETED_SHARE, compact
from tailrace_sink.spark.session import small_batch_session

pytestmark = pytest.mark.spark

PROPERTIES = "'delta.enableDeletionVectors' = 'true', 'delta.checkpointInterval' = '3'"
ROWS = 100


@pytest.mark.slow("several VACUUMs of a table")
def test_old_files_leave_and_the_oldest_version_stays(spark: SparkSession, tmp_path: Path):
    small, path = small_batch_session(spark), tmp_path / "t"
    name = f"delta.`{path}`"
    small.sql(f"CREATE TABLE {name} (id BIGINT, v INT) USING delta TBLPROPERTIES ({PROPERTIES})")
    small.sql(f"INSERT INTO {name} SELECT id, 0 FROM range(0, {ROWS}, 1, 1)")
    for value in range(1, 6):
        small.sql(f"UPDATE {name} SET v = {value} WHERE id % 10 IN ({value}, 0)")

    def data_files() -> int:
        return len(list(path.glob("*.parquet")))

    def read(version: int) -> list[int]:
        rows = small.read.format("delta").option("versionAsOf", version).load(str(path))
        return sorted(row["v"] for row in rows.collect())

    newest, oldest = TableLog(small, str(path)).newest, 4
    expected = {version: read(version) for version in range(oldest, newest + 1)}
    before = data_files()
    assert not vacuum(small, str(path), 0, is_full=False, may_list=True)
    assert data_files() == before, "nothing has left so long ago"
    removed = TableLog(small, str(path)).trim(oldest)
    entries = TableLog(small, str(path)).entries
    assert removed == 6, "three versions, and their checksum files"
    assert {entry.version for entry in entries} == set(range(3, newest + 1))
    assert {version: read(version) for version in expected} == expected

    assert [file.deleted for file in files_to_compact(small, str(path), 0, 0.55)] == [0.6]
    assert compact(small, str(path)) > 0
    assert files_to_compact(small, str(path), 0, DELETED_SHARE) == []
    assert read(newest + 1) == expected[newest]
    (path / "part-orphan.parquet").write_bytes(b"of a task that died")
    before = data_files()
    now_ms = round(time.time() * 1000)
    # The log lacks entries since the last VACUUM, and may have lost tombstones that are needed.
    assert not vacuum(small, str(path), now_ms, is_full=True, may_list=False)
    assert data_files() == before
    assert vacuum(small, str(path), now_ms + 60_000, is_full=False, may_list=True)
    in_use = small.read.format("delta").load(str(path))
    assert data_files() == len(in_use.inputFiles()) < before
    assert sorted(row["v"] for row in in_use.collect()) == expected[newest]
