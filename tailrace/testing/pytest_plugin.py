"""Fixtures: ``pytest_plugins = ["tailrace.testing.pytest_plugin"]`` in your conftest.py.

``emulated_sql_server`` is one embedded server for the whole session; ``cdc_database`` gives each
test a database of its own in it, ``tailrace_pipeline`` the topics and the lake of such a database.
"""

from __future__ import annotations

import os
import uuid
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

import pytest

from tailrace_emulator.testing.emulated import EmulatedSqlServer

if TYPE_CHECKING:
    from tailrace.testing.pipeline import TailracePipeline

CreateDatabase = Callable[..., str]
"""``create(*statements, tables=(...))`` returns the name of the database it made."""

StartPipeline = Callable[..., "TailracePipeline"]
"""``start(database, **options)`` returns a started pipeline; the options are the class's own."""


@pytest.fixture(scope="session")
def emulated_sql_server() -> Iterator[EmulatedSqlServer]:
    """An embedded SQL Server that the whole session shares; SQL Server Agent's jobs run."""
    with EmulatedSqlServer() as server:
        yield server


@pytest.fixture
def cdc_database(emulated_sql_server: EmulatedSqlServer) -> Iterator[CreateDatabase]:
    """Makes databases with change data capture, and drops them when the test ends.

    ::

        def test_orders(emulated_sql_server, cdc_database):
            table = "CREATE TABLE dbo.orders (id int PRIMARY KEY)"
            database = cdc_database(table, tables=["orders"])
            emulated_sql_server.execute(database, "INSERT INTO dbo.orders VALUES (1)")
            emulated_sql_server.capture(database)
    """
    with ExitStack() as made:

        def create(*statements: str, tables: tuple[str, ...] | list[str] = ()) -> str:
            name = f"test_{uuid.uuid4().hex[:12]}"
            made.enter_context(emulated_sql_server.database(name, *statements))
            emulated_sql_server.enable_cdc(name, *tables)
            return name

        yield create


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
    emulated_sql_server: EmulatedSqlServer, tailrace_services: dict[str, str]
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
