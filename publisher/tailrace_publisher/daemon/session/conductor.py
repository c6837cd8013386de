"""The conductor: one session after another, with growing pauses while a system is unavailable."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import structlog
from prometheus_client.registry import Collector

from tailrace_publisher.daemon.session.retry_bounds import Patience
from tailrace_publisher.daemon.session.wiring import ready_session
from tailrace_publisher.daemon.start.carried_state import CarriedState
from tailrace_publisher.daemon.start.fencing import FencingCheck
from tailrace_publisher.daemon.start.first_publish import was_published_before
from tailrace_publisher.daemon.status.status_board import PublisherBoard
from tailrace_publisher.daemon.tables.stopped import StoppedTables
from tailrace_publisher.errors import (
    ForeignRecords,
    PublisherError,
    PublisherReplaced,
    SchemaRefused,
    TableFailed,
)
from tailrace_publisher.options.broker_waits import FIRST_PUBLISH_S
from tailrace_publisher.runtime import Runtime, Step, database_topics
from tailrace_publisher.source.catalog.instances import KnownCatalog
from tailrace_schemas.topics.topic_names import TableName
from tailrace_service.backoff import Backoff
from tailrace_service.registry.client import RegistryError

_log = structlog.get_logger(__name__)

_FOREIGN_TRIES = 3
"""Consecutive transactions that foreign records may abort before they stop the table."""


class Conductor:
    """The loop that runs one session after another."""

    def __init__(self, runtime: Runtime) -> None:
        self._outer = runtime
        self.metrics: Collector = runtime.metrics.registry
        self._runtime = replace(runtime, on_step=self._stepped)
        config = runtime.config
        self._backoff = Backoff(config.retry_backoff_max_s)
        self._foreign: Counter[TableName] = Counter()
        self._patience = Patience(runtime.clock.monotonic)
        self._stopped = StoppedTables(config.snapshot, runtime.metrics, config.on_bad_event)
        self._fencing = FencingCheck(config.source.database)
        self.board = PublisherBoard(runtime, self._stopped)
        catalog = KnownCatalog.of(config)
        self._carried = CarriedState(self._fencing, self._stopped, self.board, catalog)

    def run(self) -> None:
        """Publish until the stop is set, or until nothing more is wanted.

        Raises:
            PublisherError: an error that waiting does not cure.
        """
        while not self._runtime.stop.is_set():
            try:
                with ready_session(self._runtime, self._carried) as session:
                    self.board.enter("running")
                    session.run()
            except TableFailed as error:
                self._note_failed(error)
            except PublisherReplaced as error:
                self._wait(error, self._fencing.doubt(error, self._runtime.config.heartbeat_s))
            except (PublisherError, RegistryError) as error:
                if isinstance(error, RegistryError):
                    self._carried.doubt_registry()
                longest_s = error.waited_for_s if isinstance(error, PublisherError) else None
                ends = not (error.retryable or self._may_heal(error))
                if ends or self._patience.has_ended(longest_s):
                    _log.error("publisher_failed", error=type(error).__name__, reason=str(error))
                    if isinstance(error, RegistryError):
                        raise SchemaRefused(str(error)) from error
                    raise
                self._wait(error)
            else:
                return

    def _note_failed(self, error: TableFailed) -> None:
        """Note a table that the next session starts without.

        Raises:
            TableFailed: no further session helps.
        """
        if isinstance(error.cause, ForeignRecords) and self._is_tried_again(error.table):
            self._wait(error.cause)
            return
        if self._stopped.ends_all(error.cause):
            _log.error("publisher_failed", error=type(error).__name__, reason=str(error))
            raise error
        if not self._stopped.add(error.table, error.cause):
            raise error
        if self._stopped.restarts_after(error.cause):
            self._wait(error)

    def _is_tried_again(self, table: TableName) -> bool:
        """Return whether foreign records in a table's topic were too rare to stop it."""
        self._foreign[table] += 1
        return self._foreign[table] < _FOREIGN_TRIES

    def _stepped(self, step: Step) -> None:
        self.board.turned()
        if step is Step.COMMITTED:
            self._foreign.clear()
        if self._backoff.attempts and step in {Step.COMMITTED, Step.HEARTBEAT}:
            _log.info("resumed", attempts=self._backoff.attempts)
            self._backoff.reset()
            self._patience.renew()
        self._outer.on_step(step)

    def _may_heal(self, error: PublisherError | RegistryError) -> bool:
        """Return whether the source has answered before, so that it may answer again.

        At a first start the same error shows a wrong configuration. While Kafka cannot say which of
        the two it is, the publisher waits for both: a whole site may be starting again.
        """
        if isinstance(error, RegistryError) or not error.may_heal:
            return False
        if self._fencing.has_checkpoint:
            return True
        config, ports = self._runtime.config, self._runtime.ports
        try:
            with ports.registry(config.registry) as registry:
                topics = database_topics(config, ports, registry)
                return was_published_before(topics, FIRST_PUBLISH_S)
        except (PublisherError, RegistryError) as unknown:
            _log.warning("checkpoint_not_visible", reason=str(unknown))
            return unknown.retryable

    def _wait(self, error: PublisherError | RegistryError, shortest_s: float = 0) -> None:
        if self._runtime.stop.is_set():
            _log.info("stopped", reason=str(error))
            return
        pause_s = max(shortest_s, self._backoff.next_s())
        self._runtime.metrics.retries.labels(error=type(error).__name__).inc()
        self._runtime.metrics.failed(error, str(error))
        self.board.enter("retrying")
        _log.warning(
            "retrying",
            error=type(error).__name__,
            reason=str(error),
            attempt=self._backoff.attempts,
            pause_s=round(pause_s, 2),
        )
        self._runtime.clock.wait(pause_s, self._runtime.stop)
