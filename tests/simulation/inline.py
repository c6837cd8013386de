"""Executors that have no thread: one order of things only."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from concurrent.futures import Executor, Future
from dataclasses import dataclass, field
from functools import partial
from typing import Any


class InlineExecutor(Executor):
    """Runs what is submitted at once, in the caller's thread: one order of things only."""

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        """Run it."""
        future: Future[Any] = Future()
        try:
            future.set_result(fn(*args, **kwargs))
        except Exception as error:  # noqa: BLE001 - an executor hands on whatever it was
            future.set_exception(error)
        return future


@dataclass(slots=True)
class Lane:
    """What is read in threads beside the publisher's own: tasks that run when their turn comes.

    A task is over at once. What its calls take passes while the main thread goes on: only the next
    task waits for it.

    Attributes:
        tasks: those that wait, with their futures.
        is_running: whether one runs now.
        free_at: when the thread is free again; of the world's monotonic clock.
    """

    tasks: deque[tuple[Future[Any], Callable[[], Any]]] = field(default_factory=deque)
    is_running: bool = False
    free_at: float = 0.0

    def take(self, seconds: float, now: float) -> None:
        """A call of the task that runs takes so long."""
        self.free_at = max(self.free_at, now) + seconds

    def run_next(self) -> None:
        """Run a task, in the middle of what the main thread does; it is interrupted by none."""
        if self.is_running or not self.tasks:
            return
        future, task = self.tasks.popleft()
        if not future.set_running_or_notify_cancel():
            return
        self.is_running = True
        try:
            future.set_result(task())
        except Exception as error:  # noqa: BLE001 - an executor hands on whatever it was
            future.set_exception(error)
        finally:
            self.is_running = False


class LaneExecutor(Executor):
    """An executor of one thread, whose tasks run between calls of the main thread."""

    def __init__(self, lane: Lane) -> None:
        self._lane = lane
        self._submitted: list[Future[Any]] = []

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        """Have it run later."""
        future: Future[Any] = Future()
        self._submitted.append(future)
        self._lane.tasks.append((future, partial(fn, *args, **kwargs)))
        return future

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:  # noqa: ARG002
        """Nothing that waits runs any more."""
        for future in self._submitted:
            future.cancel()
