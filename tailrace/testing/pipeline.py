"""The pipeline after a test's source: publisher and sink as the processes that users run."""

from __future__ import annotations

import contextlib
import shutil
import sys
import tempfile
import threading
import time
import uuid
from collections.abc import Mapping
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any, Final, Literal, Self, TypeVar

from tailrace.reading.committed import read_all
from tailrace.reading.lake import CommitRow, CommitRows
from tailrace.reading.topics import Event, existing_data_topics, in_commit_order
from tailrace.testing.configuration import source_options, write_configuration
from tailrace.testing.errors import PipelineFailed, PipelineTimeout
from tailrace.testing.progress import Ledger, Reached
from tailrace.testing.services import Services
from tailrace.testing.spark_host import HostedSink, SparkHost, require_sink
from tailrace.testing.steps import Say, silent
from tailrace_emulator.testing.errors import NotStarted
from tailrace_emulator.testing.process import ChildProcess
from tailrace_emulator.testing.source import CdcSource
from tailrace_schemas.position.lsn import Lsn
from tailrace_schemas.topics.topic_names import TableName, TopicNames
from tailrace_service.registry.client import SchemaRegistry

_T = TypeVar("_T")

Part = Literal["publisher", "sink"]
CAUGHT_UP_LIMIT_S: Final = 240.0
"""Two JVMs start and warm up in it; on two busy cores that took more than two minutes."""
_STOP_LIMIT_S: Final = 60.0
_CAPTURE_EVERY_S: Final = 0.5
_POLL_S: Final = 0.05
_COMMANDS: Final[Mapping[Part, str]] = {"publisher": "publish", "sink": "sink"}


class TailracePipeline:
    """Topics and a lake for one database of a source.

    ::

        with EmulatedSqlServer() as server:
            server.create_database("Shop", "CREATE TABLE dbo.orders (id int PRIMARY KEY)")
            server.enable_cdc("Shop", "orders")
            with TailracePipeline(server, "Shop") as pipeline:
                server.execute("Shop", "INSERT INTO dbo.orders VALUES (1)")
                pipeline.wait_until_caught_up()
                assert pipeline.rows("orders") == [{"id": 1}]
                assert [event.envelope["op"] for event in pipeline.events("orders")] == ["c"]

    Kafka and the schema registry run as processes from Tailrace's locked jars (Java 17 is needed),
    unless addresses of running ones are given. Lake tables are plain Delta, so that any reader
    opens them; in exchange a table whose column is renamed or widened stops, which
    ``sink={"profile": "fast"}`` gives back.
    """

    def __init__(
        self,
        source: CdcSource,
        database: str,
        *,
        lake: bool = True,
        prefix: str | None = None,
        bootstrap_servers: str | None = None,
        registry_url: str | None = None,
        data_dir: Path | None = None,
        publisher: Mapping[str, Any] | None = None,
        sink: Mapping[str, Any] | None = None,
        spark: SparkHost | None = None,
        say: Say | None = None,
    ) -> None:
        """Describes the pipeline; ``start`` or ``with`` starts it.

        Args:
            database: one with change data capture.
            lake: run the sink, too, which needs Spark: ``tailrace[testing,sink]``.
            prefix: of the topics; a name that nobody else has when None.
            bootstrap_servers: a Kafka that runs; one of our own when None.
            registry_url: a schema registry that runs; one of our own when None.
            data_dir: keeps lake, configuration and logs; a temporary folder when None.
            publisher: further options, as in docs/configuration.md.
            sink: the same of the sink.
            spark: runs the sink, one at a time; a process of its own when None, and if ``sink`` has
                settings of Spark.
            say: gets a line when topics and lake have caught up.

        Raises:
            SinkNotInstalled: a lake is wanted, and Spark is not installed.
        """
        if lake:
            require_sink()
        self._source = source
        self._database = database
        self._has_lake = lake
        self.names = TopicNames(prefix or f"test-{uuid.uuid4().hex[:10]}")
        self._given_services = (bootstrap_servers, registry_url)
        self._wanted_dir = data_dir
        self._publisher = dict(publisher or {})
        self._sink = dict(sink or {})
        self._spark = None if "spark" in self._sink else spark
        self._say = say or silent
        self._folder: Path | None = None
        self._services: Services | None = None
        self._ledger: Ledger | None = None
        self._commits: CommitRows | None = None
        self._children: dict[Part, ChildProcess | HostedSink] = {}
        self._cleanup = ExitStack()

    @property
    def bootstrap_servers(self) -> str:
        """Kafka's address."""
        return _started(self._services).bootstrap_servers

    @property
    def registry_url(self) -> str:
        """The schema registry's Confluent API."""
        return _started(self._services).registry_url

    @property
    def data_dir(self) -> Path:
        """The folder with ``tailrace.yaml``, the logs of the parts, and the lake."""
        return _started(self._folder)

    @property
    def lake(self) -> Path:
        """The folder of the lake; a table is in ``<database>/<schema>/<table>``."""
        return self.data_dir / "lake"

    def start(self) -> Self:
        """Starts what is missing, then publisher and sink; returns without waiting for data.

        Raises:
            LocalStackError: Kafka, the registry or Java are not available; the text has the fix.
        """
        try:
            self._start()
        except BaseException:
            self.stop()
            raise
        return self

    def stop(self) -> None:
        """Stops all that was started and removes the temporary folder."""
        self._cleanup.close()
        self._children.clear()
        self._folder = self._services = None

    def kill(self, part: Part) -> None:
        """Kills publisher or sink as a power cut would; :meth:`restart` resumes without a gap."""
        self._child(part).kill()

    def restart(self, part: Part) -> None:
        """Starts publisher or sink again after :meth:`kill`."""
        self._child(part).start()

    def wait_until_caught_up(self, limit_s: float = CAUGHT_UP_LIMIT_S) -> str:
        """Wait until every change that is committed now is in the topics and in the lake.

        The changes are captured first, whether or not SQL Server Agent runs.

        Returns:
            The LSN that everything has reached.

        Raises:
            PipelineFailed: publisher or sink ended; the message has the end of its log.
            PipelineTimeout: it was not there in time; the message says how far it came.
        """
        begun = time.monotonic()
        waits_for = "topics"
        pause = threading.Event()
        self._source.capture(self._database)
        target = self._newest_lsn()
        captured_at = time.monotonic()
        while True:
            for child in self._children.values():
                if not child.is_running:
                    raise PipelineFailed(str(child.failure("ended")))
            reached = _started(self._ledger).reached(target)
            if reached is not None and waits_for == "topics":
                self._caught_up("topics", begun)
                waits_for = "lake"
            if reached is not None and (not self._has_lake or self._lake_reached(reached)):
                if self._has_lake:
                    self._caught_up("lake", begun)
                return reached.closed_lsn
            if time.monotonic() > begun + limit_s:
                raise PipelineTimeout(self._how_far(target, reached, limit_s))
            if time.monotonic() - captured_at > _CAPTURE_EVERY_S:
                # A table's first snapshot ends when the capture process has passed it.
                self._source.capture(self._database)
                captured_at = time.monotonic()
            pause.wait(_POLL_S)

    def topic(self, table: str) -> str:
        """The topic of a table, given as ``orders`` or ``sales.orders``."""
        return self.names.data(self._table(table))

    def events(self, table: str) -> list[Event]:
        """Every event of a table so far, in commit order; tombstones included.

        The topic's partitions are merged by position. So this is also the order of rows with
        different keys, which a subscriber of one partition alone does not see.
        """
        topic = self.topic(table)
        topics = existing_data_topics(self.bootstrap_servers, self.names)
        if topic not in topics:
            return []
        with SchemaRegistry(self.registry_url) as registry:
            found = read_all(self.bootstrap_servers, registry, {topic: topics[topic]})
            return in_commit_order(found)

    def rows(self, table: str) -> list[dict[str, Any]]:
        """A lake table at the newest cut, in no order, without the columns of Tailrace's own.

        Raises:
            NotStarted: there is no lake, or the table is not in it yet.
        """
        from deltalake import DeltaTable

        name = self._table(table)
        row = self._last_cut()
        if row is None or name.path not in row.sources:
            raise NotStarted(f"table {name} is not in the lake yet: wait_until_caught_up() first")
        path, origin = row.place_of(name)
        only = [(column, "=", value) for column, value in origin.items()] or None
        lake_table = DeltaTable(str(self.lake / path), version=row.tables[path])
        found = lake_table.to_pyarrow_table(filters=only)
        columns = [column for column in found.column_names if not column.startswith("_cdc_")]
        return list(found.select(columns).to_pylist())

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.stop()

    def _start(self) -> None:
        self._folder = self._wanted_dir or Path(tempfile.mkdtemp(prefix="tailrace-pipeline-"))
        if self._wanted_dir is None:
            self._cleanup.callback(shutil.rmtree, self._folder, ignore_errors=True)
        self._folder.mkdir(parents=True, exist_ok=True)
        self._services = Services(self._folder, *self._given_services)
        self._cleanup.callback(self._services.stop)
        self._services.start()
        addresses = {
            "prefix": self.names.prefix,
            "kafka": {"bootstrap": self.bootstrap_servers},
            "registry": {"url": self.registry_url},
            "publisher": {"source": source_options(self._source, self._database, self._folder)},
            "sink": {"lake": str(self.lake)},
        }
        config = write_configuration(self._folder, addresses, self._publisher, self._sink)
        parts: tuple[Part, ...] = ("publisher", "sink") if self._has_lake else ("publisher",)
        for part in parts:
            child = self._described(part, config)
            self._cleanup.callback(child.stop, _STOP_LIMIT_S)
            self._children[part] = child.start()
        # Read again only when it has another version: a wait looks ten times a second.
        self._commits = CommitRows(str(self.lake / "_tailrace" / "commits"))
        self._ledger = Ledger(self.bootstrap_servers, self.names)
        self._cleanup.callback(self._ledger.close)

    def _described(self, part: Part, config: Path) -> ChildProcess | HostedSink:
        if part == "sink" and self._spark is not None:
            return HostedSink(self._spark, config)
        command = [sys.executable, "-m", "tailrace", _COMMANDS[part], "--config", str(config)]
        return ChildProcess(f"The {part}", command, self.data_dir / f"{part}.log")

    def _child(self, part: Part) -> ChildProcess | HostedSink:
        if part not in self._children:
            raise NotStarted(f"the {part} was not started")
        return self._children[part]

    def _table(self, table: str) -> TableName:
        schema, _, name = table.rpartition(".")
        return TableName(self._database, schema or "dbo", name)

    def _newest_lsn(self) -> str:
        with closing(self._source.connect(self._database)) as connection:
            raw = connection.execute(
                "SELECT MAX(start_lsn) FROM cdc.lsn_time_mapping WHERE tran_id <> 0x00"
            ).fetchval()
        return str(Lsn.from_bytes(raw) if raw else Lsn.ZERO)

    def _lake_reached(self, reached: Reached) -> bool:
        if not reached.topics:
            return True
        row = self._last_cut()
        if row is None or row.batch < reached.batch:
            return False
        tables = (self.names.table_of(topic) for topic in reached.topics)
        return all(table.path in row.sources for table in tables if table is not None)

    def _caught_up(self, what: str, begun: float) -> None:
        self._say(f"{what} of {self._database} caught up ({time.monotonic() - begun:.1f} s)")

    def _last_cut(self) -> CommitRow | None:
        # While the table is being made its folder is there and its first version is not.
        with contextlib.suppress(OSError):
            rows = _started(self._commits).read()
            return rows[-1] if rows else None
        return None

    def _how_far(self, target: str, reached: Reached | None, limit_s: float) -> str:
        record = _started(self._ledger).read()
        if reached is None:
            there = "nothing was published" if record is None else f"topics: {record.closed_lsn}"
            if record is not None and record.snapshotting:
                there += f", snapshots of {', '.join(record.snapshotting)} are not finished"
        else:
            row = self._last_cut()
            there = f"lake: {row.closed_lsn if row else 'no cut yet'}"
        return (
            f"LSN {target} was not reached within {limit_s:g} s ({there}). Its logs:"
            f" {', '.join(str(child.log) for child in self._children.values())};"
            " pass data_dir=... to keep them."
        )


def _started(value: _T | None) -> _T:
    """What only a started pipeline has."""
    if value is None:
        raise NotStarted(
            "the pipeline was not started: use `with TailracePipeline(...) as pipeline:`"
        )
    return value
