"""Select-list expressions of column values: the server converts them, never the driver.

On Linux the ODBC driver converts char, varchar and text with tables of its own. The euro sign of
code page 936 and each byte that a Windows code page leaves undefined then become a question mark.
So these types are selected as nvarchar. A block reader may select them as they are while it binds
them as bytes, of which it accepts only ASCII.

See: CAST and CONVERT (Transact-SQL), implicit and explicit conversions
"""

from __future__ import annotations

from typing import Final, assert_never

from tailrace_publisher.source.connection.quoting import quote_name, quote_text
from tailrace_schemas.events.column_types import ColumnType
from tailrace_schemas.events.envelope import SchemaColumn
from tailrace_schemas.events.transforms import ColumnTransform, TransformKind

_NVARCHAR_MAX: Final = 4000
_ANY: Final = ColumnType("nvarchar", length=1)
_NARROW: Final = frozenset({"char", "varchar", "text"})
_PARSED: Final = frozenset({"xml", "json"})
_FIXED: Final = frozenset(
    {
        *("bit", "tinyint", "smallint", "int", "bigint", "real", "float"),
        *("money", "smallmoney", "decimal", "numeric", "uniqueidentifier"),
        *("date", "smalldatetime", "datetime", "datetime2", "time", "datetimeoffset"),
    }
)
_SIZED: Final = frozenset({"nchar", "nvarchar", "binary", "varbinary"})


def change_value(column: SchemaColumn, stored: ColumnType | None, *, as_bytes: bool = False) -> str:
    """Return the expression of a value in a change table, in the type of its version.

    The capture process alters the change table when it reads an ALTER COLUMN in the log. That may
    happen between two pages. The rows of a page are older, so their values fit their version, and
    the server converts them.

    See: About change data capture, handling changes to source tables
    Inferred: does the optimizer remove a CAST to the type that the column has?

    Args:
        stored: the type that the change table has now; None if unknown.
        as_bytes: whether the block reader takes the bytes of a char or varchar.
    """
    name = quote_name(column.name)
    if column.transform is not None or column.lossless:
        return _made(name, column, stored)
    declared = column.type
    if as_bytes:
        return f"CAST({name} AS {declared})"
    if declared.name in _NARROW:
        # A byte is at most one code unit in every code page, UTF-8 included.
        fits = declared.name != "text" and 0 < declared.length <= _NVARCHAR_MAX
        return f"CAST({name} AS nvarchar({declared.length if fits else 'max'}))"
    if declared.name in _FIXED or (declared.name in _SIZED and declared.length > 0):
        return f"CAST({name} AS {declared})"
    if stored is not None and stored != declared and stored.name != "timestamp":
        return f"CAST({name} AS {declared})"
    return name


def source_value(column: SchemaColumn, held: ColumnType | None, *, as_bytes: bool = False) -> str:
    """Return the expression of a value in a source table.

    An ALTER COLUMN that is not captured yet may have made the column longer than its version says.
    So no CAST has a length, which would cut the value.

    Args:
        held: the type that the source table is known to have; None if unknown.
        as_bytes: whether the block reader takes the bytes of a char or varchar.
    """
    name = quote_name(column.name)
    if column.transform is not None or column.lossless:
        return _made(name, column, held)
    return name if as_bytes else server_text(name, column.type)


def server_text(value: str, declared: ColumnType) -> str:
    """Return an expression whose char, varchar or text is nvarchar; others stay as they are."""
    return f"CAST({value} AS nvarchar(max))" if declared.name in _NARROW else value


def _made(name: str, column: SchemaColumn, held: ColumnType | None) -> str:
    """Return the expression of a value that is not published as it is stored."""
    if column.transform is not None:
        return _transformed(name, column.transform, held)
    # Style 121 writes all seven digits, whatever they are.
    return f"CONVERT(varchar(27), {name}, 121)"


def _transformed(name: str, transform: ColumnTransform, held: ColumnType | None) -> str:
    """Return the expression of a masked, cut or hashed value.

    A hash is computed here from the text, because the server must not know the salt.
    """
    match transform.kind:
        case TransformKind.MASK:
            units = transform.published_type(_ANY).length
            text = f"CAST({quote_text(transform.detail)} AS nvarchar({units}))"
            return f"CASE WHEN {name} IS NOT NULL THEN {text} END"
        case TransformKind.TRUNCATE:
            # The server refuses to cut xml that is too long.
            is_parsed = held is None or held.name in _PARSED
            whole = f"CAST({name} AS nvarchar(max))" if is_parsed else name
            return f"CAST({whole} AS nvarchar({transform.detail}))"
        case TransformKind.HASH:
            if 0 < transform.width <= _NVARCHAR_MAX:
                return f"CAST({name} AS nvarchar({transform.width}))"
            return name if held is None else server_text(name, held)
        case _:
            assert_never(transform.kind)
