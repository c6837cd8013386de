"""One database that a process publishes, or that another member of its fleet publishes.

An error that ends its publisher ends no other. If waiting may help, or an operator can fix the
cause at the source, the publisher restarts after a pause. The pause grows up to
``retry_backoff_max_s``. Any other error stops the database, with the reason, until somebody
requests a start.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from concurrent.futures import Future
from dataclasses import replace
from functools import partial

import structlog
from prometheus_client import Metric
from prometheus_client.registry import Collector

from tailrace_publisher.daemon.process.supervised import Supervised
from tailrace_publisher.daemon.session.conductor import Conductor
from tailrace_publisher.daemon.status.status_board import Phase
from tailrace_publisher.daemon.tables.table_record import TableRecord
from tailrace_publisher.errors import PreflightError, PublisherError, PublisherReplaced
from tailrace_publisher.errors.one_table import text_of
from tailrace_publisher.metrics.publisher_metrics import Metrics
from tailrace_publisher.runtime import Runtime, Step
from tailrace_schemas.topics.topic_names import TableName
from tailrace_service.status import DaemonStatus, LastFailures

_log = structlog.get_logger(__name__)


class OneDatabase(Collector):
    """A database with its publisher and status; threads of the endpoint read it.

    Args:
        name: its name in the log, the metrics and the endpoint.
        runtime: for its publisher, which gets its own stop.

    Attributes:
        error: what stopped it; None while it runs or waits, and after a regular end.
        has_published: whether its publisher has committed since it was taken.

    Raises:
        ConfigError: an option is not usable.
    """

    def __init__(self, name: str, runtime: Runtime) -> None:
        self.name = name
        self.runtime = runtime
        self.error: BaseException | None = None
        self.has_published = False
        self._away: Phase | None = "starting"
        self._since_ms = runtime.clock.now_ms()
        self._stop = threading.Event()
        self._is_requested = threading.Event()
        self._failures = LastFailures()
        self._runs = Supervised(f"database-{name}", runtime)
        self._publisher = self._new_publisher()

    # -- for the supervisor ------------------------------------------------------------------------

    @property
    def is_here(self) -> bool:
        """Whether this process is to publish it."""
        return self._away is None

    def joined(self) -> None:
        """Note that the fleet has assigned it, here or elsewhere."""
        if self._away == "starting":
            self._away = "elsewhere"

    def take(self) -> None:
        """Publish it here, on a thread of its own; an earlier publisher here may still be ending.

        That one keeps its stop and its thread, and is fenced.
        """
        if self.is_here:
            return
        self._stop, self.has_published = threading.Event(), False
        self._runs = Supervised(f"database-{self.name}", self.runtime)
        self._start()
        self._away = None

    def look(self) -> None:
        """Check whether it has ended, and restart it if it is due or requested."""
        if not self.is_here or self._runs.is_running:
            return
        if error := self._runs.new_failure():
            self._ended(error)
        if self._runs.is_due or self._is_requested.is_set():
            _log.info("database_restarted", database=self.name, attempts=self._runs.attempts)
            self._start()

    def end(self) -> None:
        """Request its end between two steps; what is sent is committed or aborted as a whole."""
        self._stop.set()

    @property
    def ending(self) -> Future[None]:
        """Done when its publisher has ended."""
        return self._runs.ending

    def left(self) -> None:
        """Note that another member publishes it from now on."""
        self._runs.close(wait=False)
        self._publisher = self._new_publisher()  # what the last one published here is no news
        self._since_ms = self.runtime.clock.now_ms()
        self._away, self.error, self.has_published = "elsewhere", None, False

    def group_failed(self, error: PublisherError) -> None:
        """Note that no group says where it is published, and why; it was left before."""
        self._away = "starting"
        self._failures.add(self.runtime.clock.now_ms(), type(error).__name__, text_of(error))

    def wait(self) -> None:
        """Wait until it has ended, however long that takes."""
        self._runs.close(wait=True)

    def _start(self) -> None:
        self._publisher = self._new_publisher()
        self.error = None
        self._is_requested.clear()
        self._runs.start(partial(self._publish, self._publisher))

    # -- for the endpoint --------------------------------------------------------------------------

    def request_start(self) -> bool:
        """Start it at once if it is stopped or waits; return whether it was."""
        if not self.is_here or (self.phase != "stopped" and not self._runs.waits):
            return False
        self._runs.forgive()
        self._is_requested.set()
        return True

    @property
    def phase(self) -> Phase:
        """The present phase; ended if nothing more is wanted of it."""
        if self._away is not None:
            return self._away
        if self.error is not None:
            return "stopped"
        if not self._runs.is_running:
            return "ended" if self._runs.error is None else "retrying"
        return self._publisher.board.phase

    @property
    def is_running(self) -> bool:
        """Whether its publisher is running."""
        return self._runs.is_running

    @property
    def still_s(self) -> float:
        """Seconds since its last step; 0 while it does not run here."""
        return self._publisher.board.still_s if self.is_here and self.is_running else 0.0

    @property
    def still_max_s(self) -> float:
        """Seconds without a step that time limits explain; after more, it hangs."""
        return self._publisher.board.still_max_s

    @property
    def is_paused(self) -> bool:
        """Whether an operator has paused it."""
        return self.is_here and self._publisher.board.is_paused

    def records(self) -> dict[TableName, TableRecord]:
        """Return the record of each table that is published here."""
        return self._publisher.board.records() if self.is_here else {}

    def measure(self) -> None:
        """Set the figures that are computed from others, before they are read."""
        self._publisher.board.measure()

    def collect(self) -> Iterator[Metric]:
        """Yield its metrics since its publisher was started; none of a database elsewhere."""
        if self._away != "elsewhere":
            yield from self._publisher.metrics.collect()

    def status(self) -> DaemonStatus:
        """Return its whole status; of a stopped database, as it was when it stopped."""
        reported, phase = self._publisher.board.status(), self.phase
        if phase == reported.state:
            return reported
        return replace(
            reported, state=phase, since_ms=self._since_ms, now_ms=self.runtime.clock.now_ms()
        )

    # -- parts -------------------------------------------------------------------------------------

    def _new_publisher(self) -> Conductor:
        metrics = Metrics()
        metrics.failures = self._failures
        return Conductor(
            replace(
                self.runtime,
                stop=self._stop,
                metrics=metrics,
                on_step=partial(self._stepped, self._runs),
            )
        )

    def _publish(self, publisher: Conductor) -> None:
        with structlog.contextvars.bound_contextvars(database=self.name):
            publisher.run()

    def _stepped(self, runs: Supervised, step: Step) -> None:
        """Note a step of a publisher; one that was left may still take some."""
        if attempts := runs.recovered_after(step):
            _log.info("database_resumed", database=self.name, attempts=attempts)
        if step in {Step.COMMITTED, Step.HEARTBEAT} and runs is self._runs:
            self.has_published = True
        self.runtime.on_step(step)

    def _ended(self, error: BaseException) -> None:
        self._since_ms = self.runtime.clock.now_ms()
        kind, reason = type(error).__name__, text_of(error)
        self._failures.add(self._since_ms, kind, reason)
        if self._is_retried(error):
            pause_s = self._runs.retry_later()
            _log.error(
                "database_failed",
                database=self.name,
                error=kind,
                reason=reason,
                effect="nothing of it is published; the other databases continue",
                retry_in_s=round(pause_s, 2),
            )
            return
        self.error = error
        _log.error(
            "database_stopped",
            database=self.name,
            error=kind,
            reason=reason,
            effect="nothing of it is published; the other databases continue",
            fix="fix the reason; then SIGHUP, or POST /databases/<name>/start",
        )

    def _is_retried(self, error: BaseException) -> bool:
        """Return whether its publisher restarts without a request.

        In a fleet, a fenced publisher leaves it to the group who publishes the database: the next
        look may revoke it. An error that nobody foresaw is retried here. If this process ended, the
        error would move on to the next member.
        """
        is_known = isinstance(error, PublisherError)
        if self.runtime.config.fleet.join and (
            not is_known or isinstance(error, PublisherReplaced)
        ):
            return True
        return is_worth_retrying(error)


def is_worth_retrying(error: BaseException) -> bool:
    """Return whether the same options may work later: after a wait or a fix at the source."""
    if isinstance(error, PreflightError):
        return True
    return isinstance(error, PublisherError) and (error.retryable or error.may_heal)
