"""Fetching rows from SQLite."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import apsw


def fetch(
    connection: apsw.Connection, sql: str, bindings: Sequence[Any] = ()
) -> list[tuple[Any, ...]]:
    """All rows of a query. Typed Any: only the query's author knows its columns' types."""
    return connection.execute(sql, tuple(bindings)).fetchall()
