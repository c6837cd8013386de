"""Text pointers: what TEXTPTR gives, and READTEXT, WRITETEXT and UPDATETEXT take.

A pointer names a table's column and a row of it in sixteen bytes, as SQL Server's do; what stands
in them is our own. Documented: a NULL that was inserted has no pointer. Coarser than SQL Server:
neither has one that UPDATE put there.

https://learn.microsoft.com/sql/t-sql/functions/text-and-image-functions-textptr-transact-sql
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Final, NamedTuple

from tailrace_emulator.catalog.names import split_name
from tailrace_emulator.catalog.scalar_registry import scalar
from tailrace_emulator.values.types import INT, StorageValue, nvarchar, varbinary

if TYPE_CHECKING:
    from tailrace_emulator.catalog.context import SessionContext

POINTER_BYTES: Final = 16
POINTER: Final = varbinary(POINTER_BYTES)
POINTED_TYPES: Final = frozenset({"text", "ntext", "image"})
_LAYOUT: Final = struct.Struct(">qiHH")
_MASK: Final = 0xFFFF


class TextPointer(NamedTuple):
    """Where a large value stands."""

    rid: int
    object_id: int
    column_id: int
    database_id: int

    def pack(self) -> bytes:
        """The sixteen bytes."""
        return _LAYOUT.pack(
            self.rid, self.object_id, self.column_id & _MASK, self.database_id & _MASK
        )


def unpack_pointer(value: bytes) -> TextPointer:
    """What sixteen bytes mean as a pointer."""
    return TextPointer(*_LAYOUT.unpack(value))


@scalar("TEXTVALID", INT, nvarchar(800), POINTER)
def _text_valid(context: SessionContext, name: StorageValue, pointer: StorageValue) -> StorageValue:
    """1 when the pointer is of that table's column and its row is there, else 0."""
    if not isinstance(name, str) or not isinstance(pointer, bytes):
        return 0
    path, _, column_name = name.rpartition(".")
    found = split_name(path)
    if found is None or len(pointer) != POINTER_BYTES:
        return 0
    database = context.database
    if found.database:
        other = context.engine.databases.get(found.database.casefold())
        if other is None:
            return 0
        database = other
    table = database.table(found.schema or "dbo", found.name)
    column = table.column(column_name.strip('[]"')) if table is not None else None
    if table is None or column is None or column.type.name not in POINTED_TYPES:
        return 0
    place = unpack_pointer(pointer)
    wanted = (table.object_id, column.column_id & _MASK, database.database_id & _MASK)
    if place[1:] != wanted:
        return 0
    rows = context.store.connection.execute(
        f"SELECT 1 FROM {context.store.reads.source(table)} WHERE rid = ?", (place.rid,)
    )
    return int(next(iter(rows), None) is not None)
