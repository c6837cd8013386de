"""A lake and a sink for every test."""

from __future__ import annotations

import contextlib
import threading
import uuid
from collections.abc import Callable, Iterator
from itertools import count
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
from tests.fix_object_store import SharedStore
from tests.sink.lake_files import int96_columns
from tests.sink.lake_rows import Rows, query_delta, read_delta
from tests.sink.stories import Failures, Stories


class Interrupted(BaseException):
    """What a test's hook raises to end a sink at a step; no error, as an end of the process."""


class Lake:
    """A lake folder with sinks that fill it from one source.

    Attributes:
        address: of the lake: a folder below ``path``, unless it is elsewhere.
    """

    def __init__(
        self,
        spark: SparkSession,
        source: Source,
        kafka: str,
        path: Path,
        address: str = "",
        s3: dict[str, str] | None = None,
    ) -> None:
        # Reads of some rows: what is under test is the sink, not these.
        self.spark = small_batch_session(spark)
        self._sink_spark = spark
        self.source = source
        self.path = path
        self.address = address or f"{path}/lake"
        self.options: dict[str, Any] = {
            "kafka": {"bootstrap": kafka, "poll_timeout_s": 3},
            "registry": {"url": source.registry.url},
            "prefix": source.prefix,
            "lake": self.address,
            "s3": s3 or {},
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

    def break_off(self, at: int, **options: Any) -> None:
        """Run a sink up to its n-th step; it ends by itself where it has fewer."""
        steps = count()

        def interrupt(_step: str, _path: str) -> None:
            if next(steps) == at:
                raise Interrupted

        with contextlib.suppress(Interrupted):
            self.catch_up(interrupt, **options)

    def log_only(self, *, opens_tables: bool = False, **options: Any) -> None:
        """Append to the log, and leave the tables where they are."""
        sink = self.sink(**options)
        try:
            sink.open() if opens_tables else sink.open_log()
            stream = ProgressStream(
                self._sink_spark, sink.config, self.source.registry.schema_by_id, sink
            )
            stream.catch_up(threading.Event())
        finally:
            sink.close()

    def location(self, table: str) -> str:
        return f"{self.address}/shop/dbo/{table}"

    @property
    def _store(self) -> dict[str, str] | None:
        return self.config().storage_options() or None

    def rows(self, table: str, version: int | None = None) -> Rows:
        """The mirrored columns of a lake table."""
        return [
            {name: value for name, value in row.items() if name not in CHANGES_COLUMNS}
            for row in read_delta(self.spark, self.location(table), version, self._store)
        ]

    def raw(self, table: str) -> Rows:
        """The rows of a lake table with every column that it has."""
        return read_delta(self.spark, self.location(table), store=self._store)

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
        path = f"{self.address}/_tailrace/commits"
        rows = read_delta(self.spark, path, store=self._store)
        for row in rows:
            row["tables"] = dict(row["tables"])
        return sorted(rows, key=lambda row: row["batch"])

    def logged_twice(self) -> Rows:
        """Topic, partition and offset of what the log has more than once."""
        return query_delta(
            f"{self.address}/_tailrace/log",
            "SELECT topic, partition, \"offset\" FROM t WHERE topic <> ''"
            ' GROUP BY topic, partition, "offset" HAVING COUNT(*) > 1',
            store=self._store,
        )

    def version(self, table: str) -> int:
        return max(
            int(path.stem) for path in Path(self.location(table), "_delta_log").glob("*.json")
        )


@pytest.fixture
def lake(
    request: pytest.FixtureRequest, spark: SparkSession, source: Source, kafka: str, tmp_path: Path
) -> Lake:
    """A lake in a folder; in the object store for a test with the parameter ``s3``."""
    if getattr(request, "param", "local") == "local":
        return Lake(spark, source, kafka, tmp_path)
    store: SharedStore = request.getfixturevalue("store")
    return Lake(
        request.getfixturevalue("spark_with_store"),
        source,
        kafka,
        tmp_path,
        f"s3a://lake/{uuid.uuid4().hex}",
        store.options,
    )


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
            # In INT96, most readers take 9999-12-31 for another day.
            assert int96_columns(lake.path) == {}
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
