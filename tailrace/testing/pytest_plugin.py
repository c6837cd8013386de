"""Fixtures: ``pytest_plugins = ["tailrace.testing.pytest_plugin"]`` in your conftest.py.

``emulated_sql_server`` is one embedded server for the whole session; ``cdc_database`` gives each
test a database of its own in it, ``tailrace_pipeline`` the topics and the lake of such a database.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

import pytest

from tailrace_emulator.testing.pytest_plugin import cdc_database, emulated_sql_server

if TYPE_CHECKING:
    from tailrace.testing.pipeline import TailracePipeline
    from tailrace_emulator.testing.emulated import EmulatedSqlServer

__all__ = [
    "StartPipeline",
    "cdc_database",
    "emulated_sql_server",
    "tailrace_pipeline",
    "tailrace_services",
]

StartPipeline = Callable[..., "TailracePipeline"]
"""``start(database, **options)`` returns a started pipeline; the options are the class's own."""


@pytest.fixture(scope="session")
def tailrace_services(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, str]]:
    """A Kafka broker and a schema registry for all pipelines of the session.

    Where TAILRACE_TEST_BOOTSTRAP_SERVERS and TAILRACE_TEST_REGISTRY_URL name running ones, those.
    """
    bootstrap_servers = os.environ.get("TAILRACE_TEST_BOOTSTRAP_SERVERS")
    registry_url = os.environ.get("TAILRACE_TEST_REGISTRY_URL")
    if bootstrap_servers and registry_url:
        yield {"bootstrap_servers": bootstrap_servers, "registry_url": registry_url}
        return
    from tailrace_compose.local.broker import KafkaBroker
    from tailrace_compose.local.registry import SchemaRegistry

    with ExitStack() as started:
        broker = KafkaBroker(tmp_path_factory.mktemp("kafka"), is_short_lived=True)
        started.callback(broker.stop)
        registry = SchemaRegistry(tmp_path_factory.mktemp("registry"))
        started.callback(registry.stop)
        yield {"bootstrap_servers": broker.start(), "registry_url": registry.start()}


@pytest.fixture
def tailrace_pipeline(
    emulated_sql_server: EmulatedSqlServer,
    tailrace_services: dict[str, str],
) -> Iterator[StartPipeline]:
    """Starts pipelines for databases of the embedded server, and stops them when the test ends."""
    from tailrace.testing.pipeline import TailracePipeline

    with ExitStack() as started:

        def start(database: str, **options: Any) -> TailracePipeline:
            pipeline = TailracePipeline(
                emulated_sql_server, database, **(tailrace_services | options)
            )
            return started.enter_context(pipeline)

        yield start
