"""Tables that keep values of each row a second time, as the bytes that clients get.

Some tables are written once and read by everybody who follows them, mostly whole and in order.
Encoding a row again takes twice as long as reading it from SQLite, so the writer of such a table
encodes it (ADR 0009). Two hidden columns hold the bytes of the columns that ``Table.encoded``
names, and their *layout*, a number computed from those columns' types on the wire. A query takes
the bytes if the layout is still that of the table. If it is not, or nothing was stored, the values
are encoded. What converts values forgets their bytes: a type that comes back would else bring back
old values.

The encoder is next to the wire, and the server gives it to the engine; an engine without it keeps
values only.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, Protocol

import apsw

from tailrace_emulator.storage.model import Column, Table
from tailrace_emulator.values.fetching import fetch
from tailrace_emulator.values.types import MAX, StorageValue

HIDDEN_COLUMNS: Final = ("encoded", "layout")

_LARGE_TYPES: Final = frozenset({"text", "ntext", "image", "xml", "sql_variant"})
_COLUMNS_MAX: Final = 100
"""What a function of SQLite takes as arguments is bounded."""


class RowEncoding(Protocol):
    """Encodes values as they go to clients."""

    def layout(self, columns: Sequence[Column]) -> int:
        """The layout of these columns."""

    def encode(
        self, columns: Sequence[Column], rows: Sequence[tuple[StorageValue, ...]]
    ) -> list[bytes] | None:
        """Each row's bytes, or None when a value does not fit its column."""


def kept_columns(table: Table) -> tuple[Column, ...]:
    """The columns that are kept encoded, or none.

    Large values are not kept twice.
    """
    if table.encoded is None:
        return ()
    columns = table.columns[table.encoded.first : table.encoded.end]
    if len(columns) > _COLUMNS_MAX:
        return ()
    if any(c.type.length == MAX or c.type.name in _LARGE_TYPES for c in columns):
        return ()
    return columns


def with_encoded(
    encoding: RowEncoding, table: Table, rows: Sequence[tuple[StorageValue, ...]]
) -> list[tuple[StorageValue, ...]]:
    """Full rows of the table, with their hidden columns."""
    columns = kept_columns(table)
    place = table.encoded
    if place is None or not columns:
        return [(*row, None, None) for row in rows]
    encoded = encoding.encode(columns, [row[place.first : place.end] for row in rows])
    if encoded is None:
        return [(*row, None, None) for row in rows]
    layout = encoding.layout(columns)
    return [(*row, data, layout) for row, data in zip(rows, encoded, strict=True)]


def forget_encoded(connection: apsw.Connection, table: Table) -> None:
    """Before the values of such a table are converted."""
    connection.execute(f'UPDATE main."{table.sqlite_name}" SET encoded = NULL, layout = NULL')


def add_hidden_columns(connection: apsw.Connection, table: Table) -> None:
    """For a table from before its rows were stored encoded."""
    known = {row[1] for row in fetch(connection, f'PRAGMA main.table_info("{table.sqlite_name}")')}
    for name in HIDDEN_COLUMNS:
        if name not in known:
            connection.execute(f'ALTER TABLE main."{table.sqlite_name}" ADD COLUMN {name}')
