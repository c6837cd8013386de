"""A publisher that runs on a thread of its own, and restarts some time after it failed."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future

from tailrace_publisher.runtime import Runtime, Step
from tailrace_service.backoff import Backoff


class Supervised:
    """One of several publishers of a process: an error that ends it ends none of the others.

    The runtime belongs to the process: it provides the thread, the clock and the longest pause.
    """

    def __init__(self, name: str, runtime: Runtime) -> None:
        self._executor = runtime.ports.executor(name)
        self._clock = runtime.clock
        self._backoff = Backoff(runtime.config.retry_backoff_max_s)
        self._ending: Future[None] | None = None
        self._retry_at: float | None = None
        self._is_noticed = False

    def start(self, run: Callable[[], None]) -> None:
        """Run a publisher; the earlier run must have ended."""
        self._retry_at, self._is_noticed = None, False
        self._ending = self._executor.submit(run)

    @property
    def ending(self) -> Future[None]:
        """Done when the newest run has ended."""
        if self._ending is None:
            raise RuntimeError("started before it is waited for")
        return self._ending

    @property
    def is_started(self) -> bool:
        """Whether a run was ever started."""
        return self._ending is not None

    @property
    def is_running(self) -> bool:
        """Whether a run was started and has not ended."""
        return self._ending is not None and not self._ending.done()

    @property
    def error(self) -> BaseException | None:
        """The error of the newest run; None while it runs, or if nothing more was wanted."""
        return self._ending.exception() if self._ending and self._ending.done() else None

    def new_failure(self) -> BaseException | None:
        """Return the error of each failed run once."""
        if self._is_noticed or self.error is None:
            return None
        self._is_noticed = True
        return self.error

    def retry_later(self) -> float:
        """Make it due again after a pause that grows until a run commits; return its seconds."""
        pause_s = self._backoff.next_s()
        self._retry_at = self._clock.monotonic() + pause_s
        return pause_s

    @property
    def attempts(self) -> int:
        """Number of restarts since its last commit."""
        return self._backoff.attempts

    @property
    def waits(self) -> bool:
        """Whether it will restart, now or later."""
        return self._retry_at is not None

    @property
    def is_due(self) -> bool:
        """Whether its pause is over."""
        return self._retry_at is not None and self._clock.monotonic() >= self._retry_at

    def recovered_after(self, step: Step) -> int:
        """Note a step; return the number of attempts if it first proves that the run works."""
        if step not in {Step.COMMITTED, Step.HEARTBEAT}:
            return 0
        attempts = self._backoff.attempts
        self._backoff.reset()
        return attempts

    def forgive(self) -> None:
        """Reset the next pause to the shortest."""
        self._backoff.reset()

    def close(self, *, wait: bool) -> None:
        """Start no more runs."""
        self._executor.shutdown(wait=wait)
