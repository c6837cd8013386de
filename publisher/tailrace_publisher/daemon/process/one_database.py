"""One database of several that a process publishes: running, retrying or stopped.

An error that ends its publisher ends no other. If waiting may help, or an operator can fix the
cause at the source, the publisher restarts after a pause. The pause grows up to
``retry_backoff_max_s``. Any other error stops the database, with the reason, until somebody
requests a start.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial

import structlog
from prometheus_client import Metric
from prometheus_client.registry import Collector

from tailrace_publisher.daemon.process.loop import Publisher, publisher_of
from tailrace_publisher.daemon.process.supervised import Supervised
from tailrace_publisher.daemon.status.status_board import Phase, StatusBoard
from tailrace_publisher.errors import PreflightError, PublisherError
from tailrace_publisher.errors.one_table import text_of
from tailrace_publisher.metrics.publisher_metrics import Metrics
from tailrace_publisher.runtime import Runtime, Step
from tailrace_service.status import DaemonStatus, LastFailures

_log = structlog.get_logger(__name__)


class OneDatabase(StatusBoard, Collector):
    """A database with its publisher and status; threads of the endpoint read it.

    Args:
        name: its name in the log, the metrics and the endpoint.
        runtime: for its publisher, which gets its own stop.

    Attributes:
        error: what stopped it; None while it runs or waits, and after a regular end.

    Raises:
        ConfigError: an option is not usable.
    """

    def __init__(self, name: str, runtime: Runtime) -> None:
        super().__init__(runtime)
        self.name = name
        self.error: BaseException | None = None
        self._stop = threading.Event()
        self._is_requested = threading.Event()
        self._failures = LastFailures()
        self._runs = Supervised(f"database-{name}", runtime)
        self._publisher = self._new_publisher()

    # -- for the supervisor ------------------------------------------------------------------------

    def start(self) -> None:
        """Publish, on a thread of its own."""
        if self._runs.is_started:
            self._publisher = self._new_publisher()
        self.error = None
        self._is_requested.clear()
        self._runs.start(partial(self._publish, self._publisher))

    def look(self) -> None:
        """Check whether it has ended, and restart it if it is due or requested."""
        if not self._runs.is_started or self._runs.is_running:
            return
        if error := self._runs.new_failure():
            self._ended(error)
        if self._runs.is_due or self._is_requested.is_set():
            _log.info("database_restarted", database=self.name, attempts=self._runs.attempts)
            self.start()

    def end(self) -> None:
        """Request its end between two steps; what is sent is committed or aborted as a whole."""
        self._stop.set()

    def wait(self) -> None:
        """Wait until it has ended, however long that takes."""
        self._runs.close(wait=True)

    # -- for the endpoint --------------------------------------------------------------------------

    def request_start(self) -> bool:
        """Start it at once if it is stopped or waits; return whether it was."""
        if self.phase != "stopped" and not self._runs.waits:
            return False
        self._runs.forgive()
        self._is_requested.set()
        return True

    @property
    def runtime(self) -> Runtime:
        """Its options and ports."""
        return self._runtime

    @property
    def parts(self) -> Sequence[StatusBoard]:
        """The board of its publisher."""
        return (self._publisher.board,)

    @property
    def phase(self) -> Phase:
        """The present phase; ended if nothing more is wanted of it."""
        if self.error is not None:
            return "stopped"
        if self._runs.is_started and not self._runs.is_running:
            return "ended" if self._runs.error is None else "retrying"
        return self._publisher.board.phase

    @property
    def is_running(self) -> bool:
        """Whether its publisher is running."""
        return self._runs.is_running

    @property
    def still_s(self) -> float:
        """Seconds since its last step; 0 while it does not run."""
        return self._publisher.board.still_s if self.is_running else 0.0

    def collect(self) -> Iterator[Metric]:
        """Yield its metrics, since its publisher was started."""
        yield from self._publisher.metrics.collect()

    def status(self) -> DaemonStatus:
        """Return its whole status; of a stopped database, as it was when it stopped."""
        reported, phase = self._publisher.board.status(), self.phase
        if phase == reported.state:
            return reported
        return replace(
            reported, state=phase, since_ms=self._since_ms, now_ms=self._runtime.clock.now_ms()
        )

    # -- parts -------------------------------------------------------------------------------------

    def _new_publisher(self) -> Publisher:
        metrics = Metrics()
        metrics.failures = self._failures
        return publisher_of(
            replace(self._runtime, stop=self._stop, metrics=metrics, on_step=self._stepped)
        )

    def _publish(self, publisher: Publisher) -> None:
        with structlog.contextvars.bound_contextvars(database=self.name):
            publisher.run()

    def _stepped(self, step: Step) -> None:
        if attempts := self._runs.recovered_after(step):
            _log.info("database_resumed", database=self.name, attempts=attempts)
        self._runtime.on_step(step)

    def _ended(self, error: BaseException) -> None:
        self._since_ms = self._runtime.clock.now_ms()
        kind, reason = type(error).__name__, text_of(error)
        self._failures.add(self._since_ms, kind, reason)
        if is_worth_retrying(error):
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


def is_worth_retrying(error: BaseException) -> bool:
    """Return whether the same options may work later: after a wait or a fix at the source."""
    if isinstance(error, PreflightError):
        return True
    return isinstance(error, PublisherError) and (error.retryable or error.may_heal)
