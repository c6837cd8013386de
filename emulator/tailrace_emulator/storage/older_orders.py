"""Tables of files of older releases: their columns are ordered by the names of today's orders."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from tailrace_emulator.storage.catalog_store import table_from_text
from tailrace_emulator.storage.collation import ordering_of
from tailrace_emulator.values.fetching import fetch

if TYPE_CHECKING:
    import apsw

    from tailrace_emulator.storage.model import Table


def rename_orders(connection: apsw.Connection) -> None:
    """Give the columns of all tables the orders that their types have now.

    Indexes take theirs from the columns, and must be built again.

    Args:
        connection: inside a write transaction; no other one is open on the file.
    """
    tables = [
        table_from_text(text)
        for (text,) in fetch(connection, "SELECT value FROM catalog WHERE kind = 'table'")
    ]
    made = dict(fetch(connection, "SELECT name, sql FROM sqlite_schema WHERE type = 'table'"))
    changed = [
        (renamed, table.sqlite_name)
        for table in tables
        if table.sqlite_name in made
        and (renamed := _renamed(table, made[table.sqlite_name])) != made[table.sqlite_name]
    ]
    if not changed:
        return
    connection.execute("PRAGMA writable_schema = ON")
    connection.executemany(
        "UPDATE sqlite_schema SET sql = ? WHERE type = 'table' AND name = ?", changed
    )
    connection.execute("PRAGMA writable_schema = RESET")


def _renamed(table: Table, text: str) -> str:
    """The text of CREATE TABLE with the orders that the columns' types have."""
    for column in table.columns:
        ordering = ordering_of(column.type)
        if ordering is not None:
            pattern = rf"\b{column.sqlite_name} COLLATE \w+"
            text = re.sub(pattern, f"{column.sqlite_name} COLLATE {ordering}", text)
    return text
