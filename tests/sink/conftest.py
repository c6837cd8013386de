"""A lake and a sink for every test."""

from __future__ import annotations

import threading
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from tailrace_sink.daemon.sink import Sink
from tailrace_sink.daemon.streaming import ProgressStream
from tailrace_sink.options.config import SinkConfig
from tailrace_sink.spark.session import small_batch_session
from tailrace_sink.tables.lake_table import CHANGES_COLUMNS
from tests.envelopes.source import Source
from tests.envelopes.tables import Cut, Key, Row, SourceTable
from tests.sink.lake_rows import Rows, query_delta, read_delta
from tests.sink.stories import Failures, Stories


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

    def log_only(self, **options: Any) -> None:
        """Append to the log, and leave the tables where they are."""
        sink = self.sink(**options)
        try:
            sink.open_log()
            stream = ProgressStream(
                self._sink_spark, sink.config, self.source.registry.schema_by_id, sink
            )
            stream.catch_up(threading.Event())
        finally:
            sink.close()

    def location(self, table: str) -> str:
        return f"{self.path}/lake/shop/dbo/{table}"

    def rows(self, table: str, version: int | None = None) -> Rows:
        """The mirrored columns of a lake table."""
        return [
            {name: value for name, value in row.items() if name not in CHANGES_COLUMNS}
            for row in read_delta(self.spark, self.location(table), version)
        ]

    def raw(self, table: str) -> Rows:
        """The rows of a lake table with every column that it has."""
        return read_delta(self.spark, self.location(table))

    def cut(self, **versions: int) -> Cut:
        """All tables by key, at some versions or the newest."""
        cut: Cut = {}
        for name, table in self.source.tables.items():
            cut[name] = self.by_key(table, versions.get(name))
        return cut

    def by_key(self, table: SourceTable, version: int | None = None) -> dict[Key, Row]:
        """The mirrored columns of one table by key, at a version or the newest."""
        rows = self.rows(table.name.table, version)
        found = {table.key_of(row): row for row in rows}
        assert len(found) == len(rows), f"{table.name} holds a key twice"
        return found

    def commits(self) -> Rows:
        rows = read_delta(self.spark, f"{self.path}/lake/_tailrace/commits")
        for row in rows:
            row["tables"] = dict(row["tables"])
        return sorted(rows, key=lambda row: row["batch"])

    def logged_twice(self) -> Rows:
        """Topic, partition and offset of what the log has more than once."""
        return query_delta(
            f"{self.path}/lake/_tailrace/log",
            "SELECT topic, partition, \"offset\" FROM t WHERE topic <> ''"
            ' GROUP BY topic, partition, "offset" HAVING COUNT(*) > 1',
        )

    def version(self, table: str) -> int:
        return max(
            int(path.stem) for path in Path(self.location(table), "_delta_log").glob("*.json")
        )


@pytest.fixture
def lake(spark: SparkSession, source: Source, kafka: str, tmp_path: Path) -> Lake:
    return Lake(spark, source, kafka, tmp_path)


@pytest.fixture(scope="module")
def module_lake(
    spark: SparkSession, kafka: str, registry: str, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Lake]:
    """A lake that the tests of a module share: each adds to what the others left."""
    source = Source(kafka, registry)
    yield Lake(spark, source, kafka, tmp_path_factory.mktemp("shared"))
    source.close()


@pytest.fixture(scope="module")
def told_stories(
    request: pytest.FixtureRequest,
    spark: SparkSession,
    kafka: str,
    registry: str,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Callable[[Stories, str], Failures]]:
    """Tells the stories of the selected tests, when the first of them is set up."""
    selected = {item.originalname for item in request.session.items if item.path == request.path}
    known: dict[tuple[Stories, str], Failures] = {}
    sources: list[Source] = []

    def tell(stories: Stories, variant: str) -> Failures:
        if (stories, variant) not in known:
            prefix = f"shop_eu.t{uuid.uuid4().hex[:8]}"  # dots and underscores are escaped
            sources.append(Source(kafka, registry, prefix=prefix))
            lake = Lake(spark, sources[-1], kafka, tmp_path_factory.mktemp(variant))
            known[stories, variant] = stories.tell(lake, variant, selected)
        return known[stories, variant]

    yield tell
    for source in sources:
        source.close()


@pytest.fixture
def told(
    request: pytest.FixtureRequest,
    told_stories: Callable[[Stories, str], Failures],
    variant: str,
) -> Failures:
    """What became of the stories of a test's module: told in set-up, so no test is charged."""
    return told_stories(request.function.stories, variant)
