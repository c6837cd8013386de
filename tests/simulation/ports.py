"""The ports of one incarnation of the publisher: they die with it."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Executor, Future
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


def make_ports(
    source: Source, clients: Clients, schemas: Schemas, world: World, tick: Callable[[], None]
) -> Ports:
    """The ports of the publisher over a world."""
    return Ports(
        connect=source.connect,
        kafka=clients,  # type: ignore[arg-type]
        registry=lambda _: RegistryClient(schemas, tick, clients.faults),
        clock=VirtualClock(world, tick),
        executor=lambda _: InlineExecutor(),
    )


def new_stop() -> threading.Event:
    """The publisher's stop."""
    return threading.Event()
