"""Fixtures: ``pytest_plugins = ["tailrace_emulator.testing.pytest_plugin"]`` in your conftest.py.

``emulated_sql_server`` is one embedded server for the whole session; ``cdc_database`` gives each
test a database of its own in it.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator
from contextlib import ExitStack

import pytest

from tailrace_emulator.testing.emulated import EmulatedSqlServer

CreateDatabase = Callable[..., str]
"""``create(*statements, tables=(...))`` returns the name of the database it made."""


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
