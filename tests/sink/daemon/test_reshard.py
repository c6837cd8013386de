"""A lake that runs while what one has published goes to several publishers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from tailrace.reading.lake import CommitRows
from tailrace_publisher.daemon.offline.reshard import reshard
from tailrace_schemas.position.lsn import Lsn
from tailrace_service.registry.client import SchemaRegistry
from tests.pipeline.conftest import Pipe, pipe  # noqa: F401 - a fixture
from tests.pipeline.daemon.test_shards import TABLES, is_caught_up, shop  # noqa: F401
from tests.pipeline.running import Running, wait_until
from tests.sink.conftest import Lake
from tests.sink.daemon.test_restart import Served

pytestmark = [
    pytest.mark.spark,
    pytest.mark.kafka,
    pytest.mark.slow("publishers are divided and the lake follows, with all parts real"),
]

SHARDS: dict[str, Any] = {"count": 2, "pinned": {"dbo.t0": 0, "dbo.t1": 1, "dbo.t2": 1}}


class Named:
    """What a lake asks of its source: where its topics are."""

    def __init__(self, found: Pipe) -> None:
        self.prefix = found.topics.prefix
        self.registry = SchemaRegistry(found.topics.registry_url)


def rows_of(found: Pipe, lake: Lake, table: str) -> set[tuple[int, int]]:
    location = f"{lake.path}/lake/{found.source.name}/dbo/{table}"
    frame = lake.spark.read.format("delta").load(location)
    rows = [(row["id"], row["v"]) for row in frame.select("id", "v").collect()]
    assert len(rows) == len(set(rows))
    return set(rows)


def assert_lake_is_source(found: Pipe, lake: Lake) -> None:
    for table in TABLES:
        expected = set(found.source.query(f"SELECT id, v FROM dbo.{table}"))
        assert rows_of(found, lake, table) == expected


def write_all(found: Pipe, number: int) -> None:
    """One transaction over all tables, and some of one table each."""
    found.source.transaction(*(f"UPDATE dbo.{table} SET v = {number}" for table in TABLES))
    for table in TABLES:
        found.source.execute(f"INSERT dbo.{table} VALUES ({number}, {number})")


def test_the_lake_goes_on_while_shards_are_made(
    shop: Pipe,  # noqa: F811
    spark: SparkSession,
    kafka: str,
    tmp_path: Path,
):
    lake = Lake(spark, Named(shop), kafka, tmp_path)  # type: ignore[arg-type]
    commits = CommitRows(str(tmp_path / "lake" / "_tailrace" / "commits"))

    def is_in_lake() -> bool:
        rows = commits.read()
        return bool(rows) and Lsn.parse(rows[-1].closed_lsn) >= shop.source.max_lsn()

    two, three = (shop.config(shards={**SHARDS, "count": count}) for count in (2, 3))
    with Running(shop.config()) as publisher:
        publisher.until(shop.is_caught_up, "it is published by one")
    with Served(spark, lake) as served:
        wait_until(is_in_lake, "the snapshots are in the lake", 120)
        reshard(two)
        write_all(shop, 10)
        with Running(two) as first, Running(two) as second:
            second.until(lambda: is_caught_up(shop), "two go on")
            assert first.error is None
            write_all(shop, 11)
            second.until(lambda: is_caught_up(shop), "the changes are out")
        wait_until(is_in_lake, "they are in the lake", 60)
        assert served.failure is None
    assert_lake_is_source(shop, lake)
    reshard(three)
    with Running(three) as publisher:
        write_all(shop, 12)
        publisher.until(lambda: is_caught_up(shop, 3), "three go on")
    lake.catch_up()
    assert is_in_lake()
    assert_lake_is_source(shop, lake)
    assert lake.logged_twice() == []
