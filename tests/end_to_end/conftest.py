"""The whole pipeline as its users run it: every part a process of its own."""

from __future__ import annotations

import sys
import threading
import time
import uuid
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import pyodbc
import pytest
import yaml
from pyspark.sql import SparkSession

from emulator.tests.fix_sqlserver import SourceServer
from tailrace.demo.compare import TopicComparison, compare_positions
from tailrace.reading.committed import read_all
from tailrace.reading.lake import CommitRow, CommitRows
from tailrace.reading.topics import Event, existing_data_topics
from tailrace.settings.load import load
from tailrace_compose.local.errors import ArtifactUnavailable
from tailrace_compose.local.jars import iceberg_jars
from tailrace_emulator.testing.process import ChildProcess
from tailrace_schemas.position.change_position import ChangePosition, Operation
from tailrace_schemas.position.lsn import Lsn
from tailrace_schemas.topics.topic_names import TopicNames
from tailrace_service.registry.client import SchemaRegistry
from tailrace_sink.daemon.application import serve
from tailrace_sink.options.config import SinkConfig
from tests.end_to_end.table_rows import TableComparison, compare_rows
from tests.fix_object_store import SharedStore
from tests.fix_spark import SPARK_JAVA
from tests.sink.iceberg.conftest import add_to_classpath
from tests.sink.lake_rows import Rows, query_delta

REACHED_WITHIN_S = 300
"""Two JVMs start and warm up meanwhile; on two busy cores that took more than two minutes."""
_PAUSE_S = 0.1
_PAUSE_BETWEEN_SCANS_S = 0.5
"""A connection and a scan cost processor time that the sink's start needs."""


def wait_until(reached: Callable[[], bool], what: str, pause_s: float = _PAUSE_S) -> None:
    """Wait for a condition, within a bound."""
    deadline = time.monotonic() + REACHED_WITHIN_S
    pause = threading.Event()
    while not reached():
        assert time.monotonic() < deadline, f"not within {REACHED_WITHIN_S} s: {what}"
        pause.wait(pause_s)


@dataclass
class Pipeline:
    """Source, topics and lake of one test, and the processes between them."""

    server: SourceServer
    folder: Path
    prefix: str
    bootstrap: str
    registry_url: str
    database: str
    publisher_options: dict[str, Any] = field(default_factory=dict)
    sink_options: dict[str, Any] = field(default_factory=dict)
    tracing: dict[str, Any] = field(default_factory=dict)
    children: dict[str, ChildProcess] = field(default_factory=dict)
    scanning: threading.Lock = field(default_factory=threading.Lock)

    @property
    def names(self) -> TopicNames:
        return TopicNames(self.prefix)

    @cached_property
    def sink_config(self) -> SinkConfig:
        return load(self.config(), {}).sink()

    @cached_property
    def commits(self) -> CommitRows:
        return CommitRows.of(self.sink_config)

    def config(self) -> Path:
        password_file = self.folder / "password"
        password_file.write_text(self.server.password)
        options = {
            "prefix": self.prefix,
            "kafka": {"bootstrap": self.bootstrap},
            "registry": {"url": self.registry_url},
            "tracing": self.tracing,
            "publisher": {
                "source": {
                    "host": self.server.host,
                    "port": self.server.port,
                    "database": self.database,
                    "user": self.server.user,
                    "password_file": str(password_file),
                    "trust_server_certificate": True,
                },
                "poll_interval_ms": 50,
                "heartbeat_s": 1,
                **self.publisher_options,
            },
            "sink": {
                "lake": str(self.folder / "lake"),
                "spark": {
                    "spark.driver.memory": "1g",
                    "spark.driver.extraJavaOptions": SPARK_JAVA,
                },
                **self.sink_options,
            },
        }
        path = self.folder / "tailrace.yaml"
        path.write_text(yaml.safe_dump(options))
        return path

    def start(self, command: str) -> ChildProcess:
        """Start ``tailrace publish`` or ``tailrace sink``."""
        arguments = [sys.executable, "-m", "tailrace", command, "--config", str(self.config())]
        child = ChildProcess(f"tailrace {command}", arguments, self.folder / f"{command}.log")
        self.children[command] = child.start()
        return child

    @contextmanager
    def sink_here(self, spark: SparkSession) -> Iterator[None]:
        """A sink in this process while the block runs, in the session that all tests share.

        For where its process is not the point: one costs half a minute on a processor.
        """
        config = self.sink_config
        stop, failures = threading.Event(), list[BaseException]()

        def run() -> None:
            try:
                serve(spark, config, stop)
            except Exception as error:  # noqa: BLE001 - shown by the test's own thread
                failures.append(error)

        thread = threading.Thread(target=run, name="sink")
        thread.start()
        try:
            yield
        finally:
            stop.set()
            thread.join(REACHED_WITHIN_S)
        assert not thread.is_alive()
        assert not failures, failures

    def stop(self) -> None:
        for child in self.children.values():
            child.stop(30)

    def commit_rows(self) -> list[CommitRow]:
        return self.commits.read()

    def events(self) -> list[Event]:
        topics = existing_data_topics(self.bootstrap, self.names)
        with SchemaRegistry(self.registry_url) as registry:
            return list(read_all(self.bootstrap, registry, topics))

    def max_lsn(self) -> str:
        with closing(self.server.connect(self.database)) as connection:
            raw = connection.execute(
                "SELECT MAX(start_lsn) FROM cdc.lsn_time_mapping WHERE tran_id <> 0x00"
            ).fetchval()
        return str(Lsn.from_bytes(raw))

    def scan(self) -> None:
        """Let the capture process read the log to its end; only one may at a time."""
        with self.scanning, closing(self.server.connect(self.database)) as connection:
            self.server.scan(connection)

    def lake_has(self, *tables: str) -> None:
        """Wait until the tables' snapshots are in the lake, scanning past their fences."""

        def reached() -> bool:
            self.scan()
            rows = self.commit_rows()
            return bool(rows) and all(f"{self.database}/dbo/{t}" in rows[-1].tables for t in tables)

        wait_until(reached, f"the lake has {', '.join(tables)}", _PAUSE_BETWEEN_SCANS_S)

    def lake_reaches_source(self) -> None:
        """Wait until the lake stands at the source's newest captured LSN."""
        target = self.max_lsn()

        def reached() -> bool:
            for child in self.children.values():
                assert child.is_running, str(child.failure("ended"))
            rows = self.commit_rows()
            return bool(rows) and rows[-1].closed_lsn >= target

        wait_until(reached, f"the lake reaches {target}")

    def compare_topic(self, table: str, events: list[Event]) -> TopicComparison:
        """The change table of dbo.<table> against its topic, by position."""
        with closing(self.server.connect(self.database)) as connection:
            rows = connection.execute(
                "SELECT [__$start_lsn], [__$command_id], [__$seqval], [__$operation]"
                f" FROM cdc.[dbo_{table}_CT]"
            ).fetchall()
        change_rows = [
            ChangePosition(Lsn.from_bytes(a), b, Lsn.from_bytes(c), Operation(d))
            for a, b, c, d in rows
        ]
        found = [
            event.position
            for event in events
            if event.envelope is not None and event.topic.endswith(f".{table}")
        ]
        return compare_positions(table, change_rows, found)

    def lake_rows(
        self, table: str, columns: list[str], cuts: Iterable[CommitRow]
    ) -> dict[int, list[tuple[Any, ...]]]:
        """The rows of a lake table at each of some cuts, by its version."""
        path = f"{self.database}/dbo/{table}"
        query = f"SELECT {', '.join(columns)} FROM t"
        return {
            version: [tuple(row.values()) for row in self.query(path, query, version)]
            for version in {cut.tables[path] for cut in cuts}
        }

    def query(self, path: str, query: str, version: int | None = None) -> Rows:
        """What a query over a lake table ``t`` finds, at a version or the newest."""
        store = self.sink_config.storage_options() or None
        return query_delta(f"{self.sink_config.lake}/{path}", query, version, store)

    def compare_table(
        self, table: str, columns: list[str], monkeypatch: pytest.MonkeyPatch
    ) -> TableComparison:
        """Source table and lake table at the last cut; the first column is the key."""
        monkeypatch.setattr(pyodbc, "native_uuid", True)  # values, not upper-case text
        with closing(self.server.connect(self.database)) as connection:
            source = connection.execute(
                f"SELECT {', '.join(columns)} FROM dbo.[{table}]"
            ).fetchall()
        (lake,) = self.lake_rows(table, columns, self.commit_rows()[-1:]).values()
        return compare_rows(table, map(tuple, source), lake, 1)


@pytest.fixture
def pipeline(
    source_server: SourceServer, kafka: str, registry: str, tmp_path: Path, request: Any
) -> Iterator[Pipeline]:
    """A pipeline with nothing started yet; whatever a test starts is stopped."""
    prefix = request.node.name.replace("_", "-")[:60].strip("-")
    # A name that is nobody's on a server that is used for other things, too.
    database = f"Bank_{uuid.uuid4().hex[:8]}"
    folder = tmp_path / "pipeline"
    folder.mkdir()
    built = Pipeline(source_server, folder, prefix, kafka, registry, database)
    try:
        yield built
    finally:
        built.stop()


@pytest.fixture
def stored_pipeline(pipeline: Pipeline, shared_store: SharedStore) -> Pipeline:
    """The same with its lake in S3."""
    s3 = f"s3://lake/{pipeline.database}"
    pipeline.sink_options |= {"lake": s3, "s3": shared_store.options}
    return pipeline


@pytest.fixture
def iceberg_pipeline(
    stored_pipeline: Pipeline, shared_store: SharedStore, spark_with_store: SparkSession
) -> Pipeline:
    """A pipeline whose lake's tables are in SeaweedFS's catalog."""
    try:
        add_to_classpath(spark_with_store, iceberg_jars())
    except ArtifactUnavailable as error:
        pytest.skip(str(error))
    space = f"pipeline_{stored_pipeline.database.lower()}"
    data = f"{shared_store.catalog['data']}/{space}"
    catalog = shared_store.catalog | {"namespace": space, "data": data}
    stored_pipeline.sink_options |= {"format": "iceberg", "iceberg": catalog}
    return stored_pipeline
