"""Broker and registry of the sink's benchmarks."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import NamedTuple

from tailrace_compose.local.broker import KafkaBroker
from tailrace_compose.local.registry import SchemaRegistry as RegistryServer
from tailrace_service.registry.client import SchemaRegistry


class Servers(NamedTuple):
    """The running servers.

    Attributes:
        bootstrap: address of the broker.
        registry: a client of the registry at the url.
    """

    bootstrap: str
    url: str
    registry: SchemaRegistry
    pids: tuple[int | None, ...]


@contextmanager
def running_servers(folder: Path) -> Iterator[Servers]:
    """Both, while the block runs, with their data in a folder."""
    with ExitStack() as stack:
        broker, server = KafkaBroker(folder / "kafka"), RegistryServer(folder / "registry")
        bootstrap = broker.start()
        stack.callback(broker.stop)
        url = server.start()
        stack.callback(server.stop)
        registry = stack.enter_context(SchemaRegistry(url))
        yield Servers(bootstrap, url, registry, (broker.pid, server.pid))
