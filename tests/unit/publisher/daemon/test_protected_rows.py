"""Masks, row filters and encryption are noticed before a snapshot is wrong without a word."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, cast

import pytest
import structlog

from tailrace_publisher.change.instance import CapturedColumn
from tailrace_publisher.daemon.checks.protected_rows import (
    encrypted_problems,
    masked_problems,
    warn_of_filters,
)
from tailrace_publisher.errors import SourceError
from tailrace_publisher.options.publisher_config import PublisherConfig
from tailrace_publisher.ports import Connection
from tailrace_publisher.source.catalog import hidden_data as unseen
from tailrace_schemas.events.column_types import ColumnType
from tests.least_options import LEAST
from tests.unit.publisher.source.test_pages import INSTANCE

CONFIG = PublisherConfig.load(
    LEAST | {"source": {"host": "h", "database": "db", "user": "reader", "password": "p"}}
)
SALARY = CapturedColumn(
    2, "salary", 2, ColumnType("money"), nullable=True, is_computed=False, in_source=True
)
EMPLOYEES = replace(INSTANCE, columns=(*INSTANCE.columns, SALARY))


class Server:
    """Answers about one view; others do not exist, as on an earlier server."""

    def __init__(self, view: str, rows: list[tuple[int, str]]) -> None:
        self._view = view
        self._rows = rows

    def query(self, sql: str, *parameters: Any) -> list[Any]:
        assert not parameters
        if self._view not in sql:
            raise SourceError("Invalid object name", sqlstate="42S02", number=208)
        return self._rows


def server(view: str, *rows: tuple[int, str]) -> Connection:
    return cast(Connection, Server(view, list(rows)))


def test_masked_columns_are_refused_by_name():
    masked = server("sys.masked_columns", (EMPLOYEES.source_object_id, "salary"), (99, "id"))
    ((table, text),) = masked_problems(CONFIG, masked, [EMPLOYEES])

    assert table == EMPLOYEES.table
    assert "dbo.t, columns salary" in text
    assert "GRANT UNMASK TO [reader]" in text


def test_encrypted_columns_are_refused_by_name_where_they_are_captured():
    encrypted = server("encryption_type", (EMPLOYEES.source_object_id, "salary"))
    ((table, text),) = encrypted_problems(encrypted, [EMPLOYEES])

    assert table == EMPLOYEES.table
    assert "columns salary" in text
    assert "@captured_column_list" in text
    assert encrypted_problems(encrypted, [INSTANCE]) == []


def test_row_filters_are_told():
    filtered = server("sys.security_predicates", (EMPLOYEES.source_object_id, "own_rows"))
    with structlog.testing.capture_logs() as logs:
        warn_of_filters(filtered, [EMPLOYEES, replace(EMPLOYEES, name="second")])

    (told,) = logs
    assert told["event"] == "rows_filtered_by_security_policy"
    assert told["table"] == "db.dbo.t"
    assert told["policies"] == ["own_rows"]


@pytest.mark.parametrize(
    "ask", [unseen.masked_columns, unseen.encrypted_columns, unseen.filtering_policies]
)
def test_a_server_without_the_feature_protects_nothing(ask: Any):
    assert ask(server("nothing of these")) == {}

    class Refusing:
        def query(self, sql: str) -> list[Any]:
            raise SourceError(sql, number=229)

    with pytest.raises(SourceError):
        ask(Refusing())
