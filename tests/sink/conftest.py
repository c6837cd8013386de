"""A lake and a sink for every test."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from tailrace_sink.config import SinkConfig
from tailrace_sink.lake_table import CHANGES_COLUMNS, quote
from tailrace_sink.session import small_batch_session
from tailrace_sink.sink import Sink
from tailrace_sink.streaming import ProgressStream
from tests.fix_envelopes import Cut, Source


class Lake:
    """A lake folder with sinks that fill it from one source."""

    def __init__(self, spark: SparkSession, source: Source, kafka: str, path: Path) -> None:
        # Reads of some rows: what is under test is the sink, not these.
        self.spark = small_batch_session(spark)
        self._sink_spark = spark
        self.source = source
        self.path = path
        self.options: dict[str, Any] = {
            "kafka": {"bootstrap": kafka, "poll_timeout_s": 3},
            "registry": {"url": source.registry.url},
            "prefix": source.prefix,
            "lake": str(path / "lake"),
            "merge_pool": 2,
            "request_snapshots": False,
        }

    def config(self, **options: Any) -> SinkConfig:
        return SinkConfig.load({**self.options, **options})

    def sink(self, hook: Callable[[str, str], None] | None = None, **options: Any) -> Sink:
        config = self.config(**options)
        return Sink(self._sink_spark, config, self.source.registry.schema_by_id, hook=hook)

    def catch_up(self, hook: Callable[[str, str], None] | None = None, **options: Any) -> int:
        """A fresh sink, as after a restart, up to the end of the progress topic.

        Returns:
            How many commit rows it wrote.
        """
        sink = self.sink(hook, **options)
        try:
            sink.open()
            stream = ProgressStream(
                self._sink_spark, sink.config, self.source.registry.schema_by_id, sink
            )
            stream.catch_up(threading.Event())
            return sink.fold_tables(threading.Event())
        finally:
            sink.close()

    def location(self, table: str) -> str:
        return f"{self.path}/lake/shop/dbo/{table}"

    def rows(self, table: str, **read_options: Any) -> list[dict[str, Any]]:
        """The mirrored columns of a lake table."""
        frame = self.spark.read.format("delta").options(**read_options).load(self.location(table))
        names = [name for name in frame.columns if name not in CHANGES_COLUMNS]
        return [row.asDict() for row in frame.select(*map(quote, names)).collect()]

    def cut(self, **versions: int) -> Cut:
        """All tables by key, at some versions or the newest."""
        cut: Cut = {}
        for name, table in self.source.tables.items():
            options = {"versionAsOf": versions[name]} if name in versions else {}
            rows = self.rows(name, **options)
            cut[name] = {table.key_of(row): row for row in rows}
            assert len(cut[name]) == len(rows), f"{name} holds a key twice"
        return cut

    def commits(self) -> list[Any]:
        frame = self.spark.read.format("delta").load(f"{self.path}/lake/_tailrace/commits")
        return frame.orderBy("batch").collect()

    def logged_twice(self) -> list[Any]:
        """Topic, partition and offset of what the log has more than once."""
        frame = self.spark.read.format("delta").load(f"{self.path}/lake/_tailrace/log")
        places = frame.where("topic <> ''").groupBy("topic", "partition", "offset").count()
        return places.where("count > 1").collect()

    def version(self, table: str) -> int:
        return max(
            int(path.stem) for path in Path(self.location(table), "_delta_log").glob("*.json")
        )


@pytest.fixture
def lake(spark: SparkSession, source: Source, kafka: str, tmp_path: Path) -> Lake:
    return Lake(spark, source, kafka, tmp_path)
