"""Running the publisher: in a thread, or as a process that is killed at a chosen step."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import TracebackType
from typing import Any, Self

import structlog

from emulator.tests.forked import forked
from tailrace_publisher.daemon import run
from tailrace_publisher.metrics.publisher_metrics import Metrics
from tailrace_publisher.options.publisher_config import PublisherConfig

LIMIT_S = 120.0
_PAUSE_S = 0.02


def wait_until(reached: Callable[[], bool], what: str, limit_s: float = LIMIT_S) -> None:
    """Wait for a condition, within a bound."""
    deadline = time.monotonic() + limit_s
    pause = threading.Event()
    while not reached():
        assert time.monotonic() < deadline, f"not within {limit_s:g} s: {what}"
        pause.wait(_PAUSE_S)


class Running:
    """The publisher in a thread of this process; leaving the block stops it cleanly.

    Attributes:
        error: what ended it, None while it runs or after a clean stop.
        events: structured log events of the block, as dicts.
        steps: names of the steps it took.
    """

    def __init__(self, config: PublisherConfig) -> None:
        self.config = config
        self.error: Exception | None = None
        self.steps: list[str] = []
        self.metrics = Metrics()
        self._stop = threading.Event()
        self._turn = threading.Lock()
        self._thread = threading.Thread(target=self._run, name="publisher")
        self._capture = structlog.testing.LogCapture()
        self.events: list[Any] = self._capture.entries

    def _run(self) -> None:
        try:
            run(self.config, self._stop, metrics=self.metrics, on_step=self._stepped)
        except Exception as error:  # noqa: BLE001 - the test looks at it
            self.error = error

    def _stepped(self, step: str) -> None:
        self.steps.append(step)
        with self._turn:  # waits while the test holds it
            pass

    @contextmanager
    def held(self) -> Iterator[None]:
        """Hold the publisher at its next step while the block runs."""
        with self._turn:
            steps = len(self.steps)
            self.until(lambda: len(self.steps) > steps, "a step to hold it at")
            yield

    def __enter__(self) -> Self:
        self._old = structlog.get_config()["processors"]
        structlog.configure(processors=[self._capture])
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._stop.set()
        self._thread.join(LIMIT_S)
        structlog.configure(processors=self._old)
        assert not self._thread.is_alive(), "the publisher did not stop"
        if kind is None and self.error is not None:
            raise self.error

    @property
    def has_ended(self) -> bool:
        """Whether it ended by itself."""
        return not self._thread.is_alive()

    def ended(self) -> Exception:
        """Wait until it ended by itself; the error that ended it."""
        self._thread.join(LIMIT_S)
        assert self.error is not None, "the publisher did not end with an error"
        found, self.error = self.error, None
        return found

    def told(self, event: str) -> list[Any]:
        """Log events of that name so far."""
        return [entry for entry in list(self.events) if entry["event"] == event]

    def until(self, reached: Callable[[], bool], what: str, limit_s: float = LIMIT_S) -> None:
        """Wait for a condition; an error of the publisher ends the wait."""

        def reached_or_dead() -> bool:
            if self.error is not None:
                raise self.error
            return reached()

        wait_until(reached_or_dead, what, limit_s)


def _live(options: dict[str, Any], step: str, number: int) -> None:
    """One life: dies by SIGKILL at the step with that name and 1-based number."""
    seen = 0

    def on_step(name: str) -> None:
        nonlocal seen
        if name == step:
            seen += 1
            if seen == number:
                os.kill(os.getpid(), signal.SIGKILL)

    run(PublisherConfig.load(options), threading.Event(), on_step=on_step)


def live_until_killed(options: dict[str, Any], step: str, number: int = 1) -> None:
    """Run the publisher as a process until it kills itself at a step."""
    process = forked.Process(target=_live, args=(options, step, number))
    process.start()
    process.join(LIMIT_S)
    if process.exitcode is None:
        process.kill()
        process.join()
        raise AssertionError(f"step {step!r} was not taken {number} times within {LIMIT_S:g} s")
    assert process.exitcode == -signal.SIGKILL, f"it ended with {process.exitcode}"
