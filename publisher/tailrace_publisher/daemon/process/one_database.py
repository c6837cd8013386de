"""One database of several that a process publishes: begun, begun again, or left stopped.

What ends its publisher ends nothing else. Where waiting may help, also for what an operator mends
at the source, another is begun after a pause, which grows up to ``retry_backoff_max_s``. Everything
else leaves the database stopped, with the reason, until somebody asks for a start.
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
    """A database, and what is told of it; an endpoint's threads read it.

    Args:
        name: what it is called in the log, the counts and the endpoint.
        runtime: what its publisher is made with; its stop is replaced by one of its own.

    Attributes:
        name: as given.
        error: what stopped it; None while it goes on, waits, or came to its end.

    Raises:
        ConfigError: an option is not usable.
    """

    def __init__(self, name: str, runtime: Runtime) -> None:
        super().__init__(runtime)
        self.name = name
        self.error: BaseException | None = None
        self._stop = threading.Event()
        self._asked = threading.Event()
        self._failures = LastFailures()
        self._runs = Supervised(f"database-{name}", runtime)
        self._publisher = self._made()

    # -- for the one that supervises ---------------------------------------------------------------

    def begin(self) -> None:
        """Publish, on a thread of its own."""
        if self._runs.is_started:
            self._publisher = self._made()
        self.error = None
        self._asked.clear()
        self._runs.start(partial(self._publish, self._publisher))

    def look(self) -> None:
        """See whether it has ended, and whether it is to begin again."""
        if not self._runs.is_started or self._runs.is_running:
            return
        if error := self._runs.new_failure():
            self._ended(error)
        if self._runs.is_due or self._asked.is_set():
            _log.info("database_begun_again", database=self.name, attempts=self._runs.attempts)
            self.begin()

    def end(self) -> None:
        """Have it end between two steps; what is sent is committed or aborted as a whole."""
        self._stop.set()

    def wait(self) -> None:
        """Wait until it has ended, as long as that takes."""
        self._runs.close(wait=True)

    # -- for whoever asks --------------------------------------------------------------------------

    def ask_start(self) -> bool:
        """Have it begin at once, where it is stopped or waits; whether it is so."""
        if self.phase != "stopped" and not self._runs.waits:
            return False
        self._runs.forgive()
        self._asked.set()
        return True

    @property
    def runtime(self) -> Runtime:
        """Options and outside world."""
        return self._runtime

    @property
    def parts(self) -> Sequence[StatusBoard]:
        """That of its publisher."""
        return (self._publisher.board,)

    @property
    def phase(self) -> Phase:
        """The present one; ended where nothing more is wanted of it."""
        if self.error is not None:
            return "stopped"
        if self._runs.is_started and not self._runs.is_running:
            return "ended" if self._runs.error is None else "retrying"
        return self._publisher.board.phase

    @property
    def is_going(self) -> bool:
        """Whether its publisher is at work."""
        return self._runs.is_running

    @property
    def still_s(self) -> float:
        """Seconds since it has taken a step; 0 while there is none to take."""
        return self._publisher.board.still_s if self.is_going else 0.0

    def collect(self) -> Iterator[Metric]:
        """Its counts, since its publisher was begun."""
        yield from self._publisher.metrics.collect()

    def status(self) -> DaemonStatus:
        """All of it; of a database that is stopped, as it was then."""
        told, phase = self._publisher.board.status(), self.phase
        if phase == told.state:
            return told
        return replace(
            told, state=phase, since_ms=self._since_ms, now_ms=self._runtime.clock.now_ms()
        )

    # -- parts -------------------------------------------------------------------------------------

    def _made(self) -> Publisher:
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
        if may_be_mended(error):
            pause_s = self._runs.retry_later()
            _log.error(
                "database_failed",
                database=self.name,
                error=kind,
                reason=reason,
                effect="nothing of it is published; the other databases go on",
                retry_in_s=round(pause_s, 2),
            )
            return
        self.error = error
        _log.error(
            "database_stopped",
            database=self.name,
            error=kind,
            reason=reason,
            effect="nothing of it is published; the other databases go on",
            fix="mend the reason; then SIGHUP, or POST /databases/<name>/start",
        )


def may_be_mended(error: BaseException) -> bool:
    """Whether the same options may work later: waiting helps, or somebody mends the source."""
    if isinstance(error, PreflightError):
        return True
    return isinstance(error, PublisherError) and (error.retryable or error.may_heal)
