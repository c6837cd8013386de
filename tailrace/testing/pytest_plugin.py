"""Fixtures: ``pytest_plugins = ["tailrace.testing.pytest_plugin"]`` in your conftest.py.

``emulated_sql_server`` is one embedded server for the whole session; ``cdc_database`` gives each
test a database of its own in it. ``tailrace_topics`` publishes such a database, and
``tailrace_lake`` writes a lake as well.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Any

import pytest

from tailrace.testing.steps import on_terminal
from tailrace_emulator.testing.pytest_plugin import cdc_database, emulated_sql_server

if TYPE_CHECKING:
    from tailrace.testing.pipeline import TailracePipeline
    from tailrace.testing.services import Services
    from tailrace.testing.spark_host import SparkHost
    from tailrace_emulator.testing.emulated import EmulatedSqlServer

__all__ = [
    "StartPipeline",
    "cdc_database",
    "emulated_sql_server",
    "tailrace_lake",
    "tailrace_services",
    "tailrace_spark",
    "tailrace_topics",
]

StartPipeline = Callable[..., "TailracePipeline"]
"""``start(database, **options)`` returns a started pipeline; the options are the class's own."""


@pytest.fixture(scope="session")
def tailrace_services(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Services]:
    """A Kafka broker and a schema registry for all pipelines of the session.

    Where TAILRACE_TEST_BOOTSTRAP_SERVERS and TAILRACE_TEST_REGISTRY_URL name running ones, those.
    """
    from tailrace.testing.services import Services

    services = Services(
        tmp_path_factory.mktemp("tailrace-services"),
        os.environ.get("TAILRACE_TEST_BOOTSTRAP_SERVERS"),
        os.environ.get("TAILRACE_TEST_REGISTRY_URL"),
        on_terminal(request.config),
    )
    try:
        yield services.start()
    finally:
        services.stop()


@pytest.fixture
def tailrace_topics(
    tailrace_services: Services, emulated_sql_server: EmulatedSqlServer
) -> Iterator[StartPipeline]:
    """Starts publishers for databases of the embedded server; needs no Spark."""
    with _pipelines(emulated_sql_server, tailrace_services, lake=False) as start:
        yield start


@pytest.fixture(scope="session")
def tailrace_spark(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[SparkHost]:
    """A Spark for the lakes of the session: for one pipeline of a test, one test after another."""
    from tailrace.testing.spark_host import SparkHost, require_sink

    require_sink()
    host = SparkHost(tmp_path_factory.mktemp("tailrace-lakes"), on_terminal(request.config))
    try:
        yield host.start()
    finally:
        host.stop()


@pytest.fixture
def tailrace_lake(
    request: pytest.FixtureRequest,
    tailrace_spark: SparkHost,
    tailrace_services: Services,
    emulated_sql_server: EmulatedSqlServer,
) -> Iterator[StartPipeline]:
    """Starts publishers and sinks for databases of the embedded server.

    The first sink of a test uses the session's Spark; further ones have Sparks of their own.
    """
    free = [tailrace_spark]
    say = on_terminal(request.config)
    with _pipelines(emulated_sql_server, tailrace_services, lake=True, say=say) as start:

        def start_with_spark(database: str, **options: Any) -> TailracePipeline:
            return start(database, **({"spark": free.pop() if free else None} | options))

        yield start_with_spark


@contextmanager
def _pipelines(
    server: EmulatedSqlServer, services: Services, **defaults: Any
) -> Iterator[StartPipeline]:
    """Give the function that starts pipelines; stop these when the block ends."""
    from tailrace.testing.pipeline import TailracePipeline

    with ExitStack() as started:

        def start(database: str, **options: Any) -> TailracePipeline:
            addresses = {
                "bootstrap_servers": services.bootstrap_servers,
                "registry_url": services.registry_url,
            }
            pipeline = TailracePipeline(server, database, **(addresses | defaults | options))
            return started.enter_context(pipeline)

        yield start
