"""The ports of one incarnation of the publisher: they die with it."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable
from concurrent.futures import Executor, Future
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from tailrace_publisher.ports import Ports, Stop
from tests.simulation.kafka.clients import Clients
from tests.simulation.kafka.registry import RegistryClient, Schemas
from tests.simulation.sqlserver.connection import Source
from tests.simulation.world import World


class VirtualClock:
    """Time of the world; waiting passes it."""

    def __init__(self, world: World, tick: Callable[[], None]) -> None:
        self._world = world
        self._tick = tick

    def now_ms(self) -> int:
        """Milliseconds UTC."""
        return self._world.now_ms()

    def monotonic(self) -> float:
        """Seconds of a clock that only goes forward."""
        return self._world.monotonic()

    def wait(self, seconds: float, stop: Stop | None = None) -> None:
        """Time passes, and what is due happens."""
        if stop is None or not stop.is_set():
            self._world.advance(seconds)
            self._tick()


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
    """What is read in threads beside the publisher's own: tasks that run when their turn comes."""

    tasks: deque[tuple[Future[Any], Callable[[], Any]]] = field(default_factory=deque)
    is_running: bool = False

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


def make_ports(
    source: Source,
    clients: Clients,
    schemas: Schemas,
    world: World,
    tick: Callable[[], None],
    lane: Lane,
) -> Ports:
    """The ports of the publisher over a world."""

    def executor(name: str) -> Executor:
        return LaneExecutor(lane) if name.startswith("snapshot") else InlineExecutor()

    return Ports(
        connect=source.connect,
        kafka=clients,  # type: ignore[arg-type]
        registry=lambda _: RegistryClient(schemas, tick, clients.faults),
        clock=VirtualClock(world, tick),
        executor=executor,
    )


def new_stop() -> threading.Event:
    """The publisher's stop."""
    return threading.Event()
