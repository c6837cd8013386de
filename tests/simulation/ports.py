"""The ports of one incarnation of the publisher: they die with it."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Executor, Future, wait
from contextlib import contextmanager
from functools import partial
from typing import Any

from tailrace_publisher.ports import Ports, Stop
from tailrace_publisher.snapshot import table_reader
from tailrace_publisher.source.log import cleanup
from tailrace_publisher.source.pages import page_lanes, pages
from tests.simulation.inline import InlineExecutor, Lane, LaneExecutor
from tests.simulation.kafka.clients import Clients
from tests.simulation.kafka.registry import RegistryClient, Schemas
from tests.simulation.sqlserver.blocks import ModelBlocks
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
        connect_blocks=partial(ModelBlocks, source) if source.has_blocks else lambda _: None,
    )


@contextmanager
def replaced(where: Any, name: str, by: Any) -> Iterator[None]:
    """Another value of a name while the block runs."""
    before = getattr(where, name)
    setattr(where, name, by)
    try:
        yield
    finally:
        setattr(where, name, before)


@contextmanager
def few_rows(count: int) -> Iterator[None]:
    """So many rows are read in blocks already: the model's ranges have few, and bites fewer."""
    with (
        replaced(pages, "FEW_ROWS", count),
        replaced(table_reader, "FEW_ROWS", count),
        replaced(cleanup, "COMMITS_MAX", 3),
        replaced(cleanup, "ROWS_MAX", 4),
    ):
        yield


@contextmanager
def slow_pages(call_s: float) -> Iterator[None]:
    """The main thread wakes while it waits for pages, if calls take time.

    The model reads a page when it is asked for, so that none is waited for. Its time passes there.
    """
    if not call_s:
        yield
        return

    def woken(coming: Future[Any], while_waiting: Callable[[], None]) -> None:
        while_waiting()
        wait([coming])

    with replaced(page_lanes, "_wait", woken):
        yield


def new_stop() -> threading.Event:
    """The publisher's stop."""
    return threading.Event()
