"""Loads Tailrace's fixtures, and makes the shop's database for each test."""

from collections.abc import Iterator

import pyodbc
import pytest
import shop

pytest_plugins = ["tailrace.testing.pytest_plugin"]


@pytest.fixture
def shop_database(cdc_database) -> str:
    """The name of a database with the shop's tables, change data capture, and one customer."""
    ada = "INSERT INTO dbo.customers VALUES (1, N'Ada', 100)"
    return cdc_database(*shop.SCHEMA, ada, tables=["customers", "orders"])


@pytest.fixture
def connection(emulated_sql_server, shop_database: str) -> Iterator[pyodbc.Connection]:
    """The application's connection."""
    opened = emulated_sql_server.connect(shop_database)
    yield opened
    opened.close()
