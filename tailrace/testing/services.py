"""A Kafka broker and a schema registry for pipelines, started side by side."""

from __future__ import annotations

import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack
from functools import cached_property
from pathlib import Path
from typing import Self

from tailrace.testing.steps import Say, silent
from tailrace_compose.local.broker import KafkaBroker
from tailrace_compose.local.registry import SchemaRegistry


class Services:
    """Kafka and the registry: those that run at given addresses, else servers of its own.

    ``start`` returns at once. An address waits until its server is ready.

    Args:
        say: gets a line for each server that was started, from the thread that waited for it.
    """

    def __init__(
        self,
        folder: Path,
        bootstrap_servers: str | None = None,
        registry_url: str | None = None,
        say: Say = silent,
    ) -> None:
        self._folder = folder
        self._given = (bootstrap_servers, registry_url)
        self._say = say
        self._starts: dict[str, Future[tuple[str, float]]] = {}
        self._started = ExitStack()

    @cached_property
    def bootstrap_servers(self) -> str:
        """Kafka's address.

        Raises:
            LocalStackError: the broker or Java is not available; the text has the fix.
        """
        return self._given[0] or self._started_address(KafkaBroker.name)

    @cached_property
    def registry_url(self) -> str:
        """The registry's Confluent API.

        Raises:
            LocalStackError: the registry or Java is not available; the text has the fix.
        """
        return self._given[1] or self._started_address(SchemaRegistry.name)

    def start(self) -> Self:
        """Begin to start what has no address."""
        servers: list[KafkaBroker | SchemaRegistry] = []
        if self._given[0] is None:
            servers.append(KafkaBroker(self._folder / "kafka", is_short_lived=True))
        if self._given[1] is None:
            servers.append(SchemaRegistry(self._folder / "registry"))
        if servers:
            self._say(f"starting {' and '.join(server.name for server in servers)}")
        for server in servers:
            self._started.callback(server.stop)
        pool = self._started.enter_context(ThreadPoolExecutor(2, "tailrace-services"))
        for server in servers:
            # Stopped before the pool waits, too: that ends a start which is not finished.
            self._started.callback(server.stop)
            self._starts[server.name] = pool.submit(_timed, server.start)
        return self

    def stop(self) -> None:
        """Stop what was started."""
        self._started.close()

    def _started_address(self, name: str) -> str:
        address, seconds = self._starts[name].result()
        self._say(f"{name} started ({seconds:.1f} s)")
        return address


def _timed(start: Callable[[], str]) -> tuple[str, float]:
    begun = time.monotonic()
    return start(), time.monotonic() - begun
