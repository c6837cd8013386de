"""Small files, compacted between batches."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from tailrace_sink.delta.file_log import file_sizes, table_version
from tailrace_sink.delta.table_maintenance import Maintenance, compact
from tailrace_sink.options.config import SinkConfig
from tailrace_sink.spark.session import small_batch_session


@pytest.fixture
def small(spark: SparkSession) -> SparkSession:
    return small_batch_session(spark)


def table_with_files(spark: SparkSession, location: Path, files: int) -> str:
    """A table of files of different sizes."""
    for number in range(1, files + 1):
        rows = spark.range(0, number * 1000, 1, 1)
        rows.write.format("delta").mode("append").save(str(location))
    return str(location)


def config(lake: Path, **options: Any) -> SinkConfig:
    return SinkConfig.load(
        {
            "kafka": {"bootstrap": "127.0.0.1:1"},
            "registry": {"url": "http://127.0.0.1:1"},
            "prefix": "p",
            "lake": str(lake),
            **options,
        }
    )


def test_the_smallest_files_are_compacted_up_to_a_bound(small: SparkSession, tmp_path: Path):
    location = table_with_files(small, tmp_path / "t", 6)
    rows = small.read.format("delta").load(location).count()
    sizes = sorted(file_sizes(small, location, 1 << 30))
    assert len(set(sizes)) == 6
    assert compact(small, location, files_min=7) == 0

    budget = sum(sizes[:4])
    assert compact(small, location, files_min=2, run_bytes_max=budget) == 4
    after = sorted(file_sizes(small, location, 1 << 30))
    assert len(after) == 3
    assert set(sizes[-2:]) <= set(after), "the largest are left"
    frame = small.read.format("delta")
    assert frame.load(location).count() == rows
    assert frame.option("versionAsOf", 5).load(location).count() == rows


def test_a_table_is_due_by_its_own_versions_and_clustered_ones_are_left_alone(
    small: SparkSession, tmp_path: Path
):
    """Whichever process wrote them: one that ends after each batch tends the lake as well."""
    paths = [f"shop/dbo/{name}" for name in ("a", "b", "c")]
    for path in paths:
        table_with_files(small, tmp_path / path, 1)
    looked_at = []
    for version in range(0, 120, 3):
        upkeep = Maintenance(small, config(tmp_path, cluster_by={"dbo.c": ["id"]}))
        upkeep.note({paths[0]: version}, {paths[0]: version + 3})
        while (path := upkeep.run()) is not None:
            looked_at.append((path, version))
    assert looked_at == [(paths[0], 48), (paths[0], 99)]

    upkeep = Maintenance(small, config(tmp_path, cluster_by={"dbo.c": ["id"]}))
    upkeep.note(dict.fromkeys(paths, 49), dict.fromkeys(paths, 50))
    assert [upkeep.run() for _ in range(4)] == [*paths, None]
    assert table_version(small, str(tmp_path / paths[2])) == 0
