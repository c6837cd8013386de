"""One life of the publisher, from connecting to the first error or the stop.

Start: check the source, fence the producer before us (init_transactions), read the checkpoint to
its true end, and go on from there. Nothing is carried from one life to the next but what Kafka
holds, so an error at any point costs a restart of this and no thought about what was half done.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack

import structlog

from tailrace_publisher.change.ranges import is_closed
from tailrace_publisher.checkpoint.reader import read_checkpoints
from tailrace_publisher.config import PublisherConfig
from tailrace_publisher.daemon.begun import has_begun
from tailrace_publisher.daemon.book import Book
from tailrace_publisher.daemon.committer import Committer
from tailrace_publisher.daemon.lease import Lease
from tailrace_publisher.daemon.lost_checkpoint import begin_without_checkpoint
from tailrace_publisher.daemon.preflight import TableProblem, check_source
from tailrace_publisher.daemon.signals import Signals
from tailrace_publisher.daemon.snapshot_driver import SnapshotDriver
from tailrace_publisher.daemon.stopped import StoppedTables
from tailrace_publisher.daemon.stream import Stream
from tailrace_publisher.daemon.tables import PublishedTables
from tailrace_publisher.daemon.watch import CaptureWatch
from tailrace_publisher.deliver.delivery import DeliveryOptions, KafkaDelivery
from tailrace_publisher.errors import (
    PreflightError,
    PublisherError,
    TableFailed,
    TopicRefused,
)
from tailrace_publisher.metrics import Metrics
from tailrace_publisher.snapshot.rounds import Snapshots
from tailrace_publisher.source.connection import Connection
from tailrace_publisher.source.identity import DatabaseIdentity, continuity, visible_identity
from tailrace_publisher.source.loss import (
    check_continues,
    check_not_backwards,
    check_same_database,
)
from tailrace_publisher.source.queries import (
    is_read_only,
    max_lsn,
    server_name,
    time_zone,
    utc_offset_minutes,
)
from tailrace_publisher.source.windows import milliseconds
from tailrace_schemas.lsn import Lsn
from tailrace_schemas.registry import SchemaRegistry

_log = structlog.get_logger(__name__)

_CHECKPOINT_DEADLINE_S = 60.0
_OFFSET_REFRESH_S = 600.0
"""How often the server's offset from UTC is read again: it changes with daylight saving time."""


class Session:
    """One life of the publisher.

    Args:
        config: the options.
        stop: set to end it between two steps.
        metrics: counts.
        clock_ms: milliseconds UTC.
        on_step: called with a name at each step, for tests that stop the process there.
        lease: what this process last knew of the checkpoint.
        stopped: the tables that cannot go on.
    """

    def __init__(
        self,
        config: PublisherConfig,
        stop: threading.Event,
        metrics: Metrics,
        clock_ms: Callable[[], int],
        on_step: Callable[[str], None],
        lease: Lease,
        stopped: StoppedTables,
    ) -> None:
        self._config = config
        self._stop = stop
        self._metrics = metrics
        self._clock_ms = clock_ms
        self._on_step = on_step
        self._lease = lease
        self._stopped = stopped
        self._resources = ExitStack()
        self._offset_read_at = 0.0

    def run(self) -> None:
        """Publish until the stop is set.

        Raises:
            PublisherError, RegistryError: what ended this life.
        """
        with self._resources:
            self._start()
            self._metrics.up.set(1)
            try:
                self._loop()
            except TopicRefused as error:
                raise self._failed_table(error) from error
            finally:
                self._metrics.up.set(0)

    def _failed_table(self, error: TopicRefused) -> PublisherError:
        """The failure of the table behind a topic."""
        for table in self._tables:
            if table.topic == error.topic:
                return TableFailed(table.name, error)
        return error

    # -- start -------------------------------------------------------------------------------------

    def _start(self) -> None:
        config = self._config
        self._control = self._resources.enter_context(Connection(config.source))
        problems = check_source(config, self._control)
        registry = self._resources.enter_context(
            SchemaRegistry(config.registry.url, config.registry.timeout_s)
        )
        if problems:
            self._refuse_or_leave_out(problems, registry)
        delivery = KafkaDelivery(
            config.kafka.bootstrap,
            config.transactional_id,
            config.topics,
            registry=registry,
            server=config.server_name,
            database=config.source.database,
            options=DeliveryOptions(
                replication_factor=config.kafka.replication_factor,
                tombstones=config.tombstones,
                commit_timeout_s=config.kafka.commit_timeout_s,
                start_timeout_s=config.kafka.start_timeout_s,
                transaction_timeout_ms=config.kafka.transaction_timeout_ms,
                queue_bytes=config.queue_bytes,
                extra=config.kafka.librdkafka_options(),
            ),
        )
        self._resources.callback(delivery.close)
        delivery.start()
        self._book = self._open_book(registry)
        self._tables = PublishedTables(
            config,
            self._control,
            registry,
            delivery.ensure_topics,
            self._book,
            self._metrics,
            self._stopped,
        )
        self._tables.refresh()
        self._committer = Committer(
            delivery,
            self._book,
            rows_per_transaction=config.rows_per_transaction,
            bytes_per_transaction=config.bytes_per_transaction,
            linger_ms=config.linger_ms,
            metrics=self._metrics,
            snapshotting=lambda: [table.topic for table in self._tables.snapshotting()],
            clock_ms=self._clock_ms,
            on_committed=self._lease.written,
            on_step=self._on_step,
        )
        signals = Signals(
            config.kafka.bootstrap,
            config.topics.signals,
            delivery,
            self._book,
            self._tables,
            config.kafka.librdkafka_options(),
        )
        self._resources.callback(signals.close)
        self._signals = signals
        snapshots = Snapshots(self._control, config.snapshot.chunk_rows)
        self._snapshots = SnapshotDriver(
            snapshots, self._tables, self._book, self._committer, self._metrics, self._on_step
        )
        self._watch = CaptureWatch(self._control, config.capture_stall_s, self._metrics)
        # Left in reverse: the thread ends before its connection is closed.
        bulk = self._resources.enter_context(Connection(config.source))
        warn_of_two_servers(self._control, bulk)
        reader = self._resources.enter_context(ThreadPoolExecutor(1, "change-tables"))
        self._stream = Stream(
            config,
            self._control,
            bulk,
            reader,
            self._tables,
            self._book,
            self._committer,
            self._metrics,
            snapshots.observe,
            self._clock_ms,
            self._stop,
            self._on_step,
        )

    def _refuse_or_leave_out(self, problems: list[TableProblem], registry: SchemaRegistry) -> None:
        """What is wrong with single tables: a first start refuses it, a later one leaves them out.

        Raises:
            PreflightError: there is no checkpoint; names every problem.
        """
        if not has_begun(self._config, registry, _CHECKPOINT_DEADLINE_S):
            raise PreflightError([problem.text for problem in problems])
        self._stopped.leave_out(problems)

    def _open_book(self, registry: SchemaRegistry) -> Book:
        config = self._config
        database = config.source.database
        records = read_checkpoints(
            config.kafka.bootstrap,
            config.topics,
            config.server_name,
            database,
            _CHECKPOINT_DEADLINE_S,
            registry=registry,
            extra=config.kafka.librdkafka_options(),
        )
        self._lease.found(records)
        identity = visible_identity(self._control)
        newest = max_lsn(self._control)
        book = Book.restore(config.server_name, database, identity, records)
        if book is None:
            book = begin_without_checkpoint(
                config,
                registry,
                identity,
                newest or Lsn.ZERO,
                _CHECKPOINT_DEADLINE_S,
                is_secondary=is_read_only(self._control),
            )
            book.commit = continuity(self._control, book.position.commit_lsn).commit
            return book
        self._check_continues(book, book.known_identity(records), identity, newest)
        _log.info("checkpoint_found", database=database, position=str(book.position))
        return book

    def _check_continues(
        self, book: Book, known: DatabaseIdentity, found: DatabaseIdentity, newest: Lsn | None
    ) -> None:
        """Check that the database's log continues what was published."""
        position = book.position.commit_lsn
        check_same_database(book.database, known, found, position)
        if position > Lsn.ZERO:
            check_not_backwards(
                book.database, position, newest, is_secondary=is_read_only(self._control)
            )
        entry = continuity(self._control, position)
        if book.commit is None:
            book.commit = entry.commit
        else:
            check_continues(book.database, book.commit, entry)
        if known != book.identity and known.database_guid:
            _log.info("database_moved", database=book.database, was=str(known), found=str(found))

    # -- loop --------------------------------------------------------------------------------------

    def _loop(self) -> None:
        interval_s = self._config.poll_interval_ms / 1000
        self._committer.heartbeat(None)
        self._stream.time_zone = time_zone(self._control)
        looked_at = time.monotonic()
        while not self._stop.is_set():
            self._refresh_offset()
            known_ms = None
            is_idle = self._committer.idle_s >= self._config.heartbeat_s
            if is_idle or time.monotonic() - looked_at >= self._config.heartbeat_s:
                # Before the poll: what was captured before it is seen by it.
                known_ms = self._known_ms()
                looked_at = time.monotonic()
            more = self._stream.poll()
            if is_closed(self._book.position):
                self._signals.take()
                more = self._snapshots.advance(self._stream.utc_offset_minutes) or more
            if is_idle:
                self._committer.heartbeat(None if more else known_ms)
            if not more:
                self._stop.wait(interval_s)
        self._committer.finish()
        _log.info("stopped", position=str(self._book.position))

    def _known_ms(self) -> int | None:
        """Look at the capture job: the time up to which a poll that finds nothing has everything.

        That is not now: with the capture job behind or stopped the lag must grow.
        """
        known = self._watch.look()
        return None if known is None else milliseconds(known, self._stream.utc_offset_minutes)

    def _refresh_offset(self) -> None:
        now = time.monotonic()
        if not self._offset_read_at or now - self._offset_read_at > _OFFSET_REFRESH_S:
            self._stream.utc_offset_minutes = utc_offset_minutes(self._control)
            self._offset_read_at = now


def warn_of_two_servers(control: Connection, bulk: Connection) -> None:
    """Say it when the two connections of a session are at different replicas.

    What is read through both is right all the same: see SourceBehind.

    Raises:
        SourceError: a server did not answer.
    """
    names = server_name(control), server_name(bulk)
    if names[0] != names[1]:
        _log.warning(
            "connections_at_different_servers",
            control=names[0],
            bulk=names[1],
            effect="changes wait until the replica that is behind has them",
            fix="let source.host name one replica, or a routing list without load balancing",
        )
