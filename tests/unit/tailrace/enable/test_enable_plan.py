"""What tailrace enable plans where names differ in case alone."""

from __future__ import annotations

from typing import Any, cast

import pytest

from tailrace.enable import plan
from tailrace_publisher.options.publisher_config import PublisherConfig
from tailrace_publisher.ports import Connection
from tailrace_publisher.source.catalog.capture_tsql import CaptureOptions
from tests.least_options import LEAST


class CaseSensitive:
    """A database with a case-sensitive collation: dbo.Orders is captured, dbo.orders is not."""

    def query(self, sql: str, *parameters: Any) -> list[tuple[Any, ...]]:
        if "is_tracked_by_cdc" in sql:
            return [("dbo", "orders", False), ("dbo", "Orders", True)]
        if "is_cdc_enabled" in sql:
            return [(True,)]
        if "SERVERPROPERTY" in sql:
            return [(3, 16, None)]
        assert "sys.columns" in sql
        assert parameters[1] in {"orders", "Orders"}
        return [("id",)]


@pytest.mark.parametrize(
    ("wanted", "enabled"), [("orders", "N'orders'"), ("Orders", None), ("ORDERS", None)]
)
def test_a_table_is_enabled_that_is_spelled_so(wanted: str, enabled: str | None):
    config = PublisherConfig.load(LEAST)
    source = cast(Connection, CaseSensitive())

    found = plan._checked_enable(config.source, source, [("dbo", wanted)], CaptureOptions())

    statements = [statement.sql for statement in found.statements]
    assert len(statements) == (enabled is not None)
    assert all(enabled is not None and enabled in sql for sql in statements)
