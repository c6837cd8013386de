"""Key values as text that SQL Server converts back exactly.

Only the server compares the last key of a chunk, because its order depends on collations and on the
byte order of uniqueidentifier. The key travels as text with an explicit conversion to the column's
type. So varchar keys are compared as varchar: an nvarchar parameter sorts differently under SQL
collations. Text can also be stored as a resume key in a checkpoint.

Each byte of a single-byte code page has a character that converts back. In a double-byte code page
bytes may be no character (:class:`UnreadableKey`).

See: Collation and Unicode support, code pages
Inferred: does a _BIN collation of code page 932 distinguish bytes that are one character?
"""

from __future__ import annotations

from datetime import date, datetime
from decimal import Decimal
from typing import Any, Final

from tailrace_publisher.change.instance import CapturedColumn
from tailrace_publisher.source.connection.quoting import quote_name

_STYLES: Final = {
    "date": 23,  # yyyy-mm-dd
    "datetime": 126,  # yyyy-mm-ddThh:mi:ss.mmm
    "smalldatetime": 126,
    "datetime2": 121,  # yyyy-mm-dd hh:mi:ss.nnnnnnn
    "binary": 1,  # 0x...
    "varbinary": 1,
    "timestamp": 1,
}
_CHARACTERS: Final = frozenset({"char", "varchar", "nchar", "nvarchar"})
_NARROW: Final = frozenset({"char", "varchar"})
_HIERARCHYID_BYTES: Final = 892
_SEVEN_DIGITS: Final = frozenset({"time", "datetime2"})


def needs_server_text(column: CapturedColumn) -> bool:
    """Return whether Python's value lost digits, so that the server must write the text."""
    return column.type.name in _SEVEN_DIGITS and column.type.scale == 7


def text_of_time(column: CapturedColumn) -> str:
    """Return the select-list expression that writes a key column as text."""
    return f"CONVERT(varchar(27), {quote_name(column.name)}, 121)"


def key_text(column: CapturedColumn, value: Any) -> str:
    """Return the text of a key column's value as pyodbc gave it."""
    if isinstance(value, bytes):
        return "0x" + value.hex()
    if isinstance(value, bool):
        return str(int(value))
    if isinstance(value, float):
        return repr(value)
    if isinstance(value, datetime):
        if column.type.name == "datetime2":
            return value.isoformat(sep=" ", timespec="microseconds")
        return value.isoformat(timespec="milliseconds")
    if isinstance(value, date):
        return value.isoformat()
    if isinstance(value, Decimal):
        return format(value, "f")  # str() writes 0E-7, which SQL Server refuses as a decimal
    return str(value)


def typed_parameter(column: CapturedColumn) -> str:
    """Return the expression that converts a text parameter to the column's type."""
    name = column.type.name
    if name in _CHARACTERS and column.collation:
        return f"CAST(? COLLATE {column.collation} AS {column.type})"
    if name == "hierarchyid":
        # CAST of a text reads '/1/2/'; CONVERT with style 1 reads 0x and digits.
        # See: hierarchyid (Transact-SQL), conversion
        return f"CAST(CONVERT(varbinary({_HIERARCHYID_BYTES}), ?, 1) AS hierarchyid)"
    if name in _STYLES:
        declared = "binary(8)" if name == "timestamp" else str(column.type)
        return f"CONVERT({declared}, ?, {_STYLES[name]})"
    return f"CAST(? AS {column.type})"


def is_narrow(column: CapturedColumn) -> bool:
    """Return whether a column has the bytes of a code page."""
    return column.type.name in _NARROW
