"""The form in which the driver returns a value of each type as part of a block of rows.

A block holds the values of one column in cells of the same width, and the length of each value. The
forms are the C types of ODBC, whose layouts are fixed. For time and datetimeoffset they are the
Microsoft driver's own structures.
https://learn.microsoft.com/sql/odbc/reference/appendixes/c-data-types
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum, auto
from typing import Final

from tailrace_schemas.events.column_types import MAX, ColumnType
from tailrace_schemas.events.envelope import SchemaColumn
from tailrace_schemas.events.transforms import TransformKind


class Declined(Exception):
    """A block reader cannot handle a type or a value, so the reference must read and encode it."""


class NotAscii(Declined):
    """Texts that were read as ASCII are not: the page may be read in blocks with wider cells."""


class Form(Enum):
    """The layout of a cell."""

    BIT = auto()
    """One byte, 0 or 1."""
    LONG = auto()
    """A signed integer of eight bytes."""
    SINGLE = auto()
    """IEEE 754 of four bytes."""
    DOUBLE = auto()
    """IEEE 754 of eight bytes."""
    NUMERIC = auto()
    """SQL_NUMERIC_STRUCT: precision, scale, sign (1 is positive), magnitude of 16 bytes."""
    DATE = auto()
    """SQL_DATE_STRUCT: year, month, day."""
    TIMESTAMP = auto()
    """SQL_TIMESTAMP_STRUCT: year to second, nanoseconds."""
    TIME = auto()
    """SQL_SS_TIME2_STRUCT: hour, minute, second, nanoseconds."""
    TIMESTAMP_OFFSET = auto()
    """SQL_SS_TIMESTAMPOFFSET_STRUCT: as TIMESTAMP, then hours and minutes of the offset."""
    GUID = auto()
    """SQLGUID: its first three fields are little-endian."""
    TEXT = auto()
    """UTF-16 code units and a zero unit after them."""
    ASCII = auto()
    """Bytes of a char or varchar in the server's code page; below 0x80 all code pages agree."""
    BYTES = auto()
    """Bytes."""


@dataclass(frozen=True, slots=True)
class Cell:
    """How one column is read.

    Attributes:
        width: bytes of a cell.
        precision: digits of a NUMERIC, else 0.
        scale: digits after the point of a NUMERIC, else 0.
    """

    form: Form
    width: int
    precision: int = 0
    scale: int = 0


_FIXED: Final = {
    "bit": Cell(Form.BIT, 1),
    "tinyint": Cell(Form.LONG, 8),
    "smallint": Cell(Form.LONG, 8),
    "int": Cell(Form.LONG, 8),
    "bigint": Cell(Form.LONG, 8),
    "real": Cell(Form.SINGLE, 4),
    "money": Cell(Form.NUMERIC, 19, 19, 4),
    "smallmoney": Cell(Form.NUMERIC, 19, 10, 4),
    "timestamp": Cell(Form.BYTES, 8),
    "date": Cell(Form.DATE, 6),
    "smalldatetime": Cell(Form.TIMESTAMP, 16),
    "datetime": Cell(Form.TIMESTAMP, 16),
    "datetime2": Cell(Form.TIMESTAMP, 16),
    "time": Cell(Form.TIME, 12),
    "datetimeoffset": Cell(Form.TIMESTAMP_OFFSET, 20),
    "uniqueidentifier": Cell(Form.GUID, 16),
}
_LOSSLESS_CHARACTERS: Final = 27
"""``CONVERT(varchar(27), ..., 121)``: see ``source.pages.value_expression``."""
_SYSNAME_CHARACTERS: Final = 128
_MOST_CHARACTERS: Final = {"char": 8000, "varchar": 8000, "nchar": 4000, "nvarchar": 4000}


def _text(characters: int) -> Cell:
    return Cell(Form.TEXT, 2 * (characters + 1))


TEXT_OF_TIME: Final = _text(_LOSSLESS_CHARACTERS)
"""A moment as the server writes it, with all digits."""


def cell_of(column: SchemaColumn) -> Cell | None:
    """Return how the values of a column are read; None if a block cannot hold them.

    That is so for every type without a declared width, which includes (max) and the old large
    types, and for CLR types.
    """
    declared = column.type
    transform = column.transform
    if transform is not None and transform.kind is TransformKind.HASH:
        return _text(transform.width) if transform.width else None
    if column.lossless and declared.name in {"time", "datetime2"} and declared.scale == 7:
        return _text(_LOSSLESS_CHARACTERS)
    if declared.name in _FIXED:
        return _FIXED[declared.name]
    if declared.name in {"decimal", "numeric"}:
        return Cell(Form.NUMERIC, 19, declared.precision, declared.scale)
    if declared.name == "float":
        is_single = 0 < declared.precision <= 24
        return Cell(Form.SINGLE, 4) if is_single else Cell(Form.DOUBLE, 8)
    return _of_declared_width(declared)


def ascii_cell_of(column: SchemaColumn) -> Cell | None:
    """Return how a column is read whose values may all be ASCII; None if that saves nothing.

    The driver then returns the bytes as they came, half as many as in code units.
    """
    declared = column.type
    if column.transform is not None or column.lossless or declared.name not in {"char", "varchar"}:
        return None
    return Cell(Form.ASCII, declared.length) if declared.length > 0 else None


def _of_declared_width(declared: ColumnType) -> Cell | None:
    if declared.name == "sysname":
        return _text(_SYSNAME_CHARACTERS)
    if declared.length == MAX or declared.length <= 0:
        return None
    if declared.name in _MOST_CHARACTERS:
        return _text(declared.length)
    if declared.name in {"binary", "varbinary"}:
        return Cell(Form.BYTES, declared.length)
    return None
