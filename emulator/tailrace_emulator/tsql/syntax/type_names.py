"""Names of data types as DDL, DECLARE and CAST write them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from tailrace_emulator import messages
from tailrace_emulator.messages.errors import Aborts, SqlError, not_supported
from tailrace_emulator.values.types import (
    CLR_TYPES,
    GEOGRAPHY,
    GEOMETRY,
    HIERARCHYID,
    MAX,
    SqlType,
)


@dataclass(frozen=True, slots=True)
class NamedType(SqlType):
    """A user-defined type, not yet looked up: ``name`` is how it was written.

    After :func:`tailrace_emulator.tsql.compile.user_types.resolved` it can only be a table type.
    """

    parts: tuple[str, ...] = ()


SYSNAME_DECLARED: Final = SqlType("nvarchar", length=128)
"""What sysname is read as: a column that has this very object is declared sysname."""

_ALIASES: Final = {
    "integer": "int",
    "dec": "decimal",
    "character": "char",
    "rowversion": "timestamp",
    "sysname": "sysname",
    "double precision": "float",
    "char varying": "varchar",
    "character varying": "varchar",
    "binary varying": "varbinary",
    "national char": "nchar",
    "national character": "nchar",
    "national char varying": "nvarchar",
    "national character varying": "nvarchar",
    "national text": "ntext",
}
_PLAIN: Final = frozenset(
    {"bit", "tinyint", "smallint", "int", "bigint", "date", "uniqueidentifier", "timestamp",
     "smalldatetime", "text", "ntext", "image", "xml", "sql_variant"}
)  # fmt: skip
_UNSUPPORTED: Final = frozenset(
    {"cursor", "table", "json", "vector"}
)  # fmt: skip
_LENGTH_LIMITS: Final = {
    "char": 8000,
    "varchar": 8000,
    "nchar": 4000,
    "nvarchar": 4000,
    "binary": 8000,
    "varbinary": 8000,
}
_SYSTEM: Final = _PLAIN.union(
    _LENGTH_LIMITS,
    {"decimal", "numeric", "time", "datetime2", "datetimeoffset", "float", "real", "money",
     "smallmoney", "datetime", "sysname"},
    CLR_TYPES,
)  # fmt: skip


def sql_type(
    name: str, arguments: tuple[int, ...], *, line: int, default_length: int = 1
) -> SqlType:
    """The type that a declaration means.

    Args:
        name: type name as written, words separated by one blank.
        arguments: numbers in its parentheses; ``MAX`` stands for (max).
        default_length: length of (var)char and (var)binary without one: 1 in DDL, 30 in CAST.

    Raises:
        SqlError: 2715 unknown type, 2717 too large a length, 2716 or 2750 bad arguments.
    """
    folded = name.lower()
    folded = _ALIASES.get(folded, folded)
    if folded in _UNSUPPORTED:
        raise not_supported(f"the data type {folded}")
    if folded in _LENGTH_LIMITS:
        return _sized(folded, arguments, line, default_length)
    if folded in {"decimal", "numeric"}:
        return _decimal(folded, arguments, line)
    if folded in {"time", "datetime2", "datetimeoffset"}:
        scale = arguments[0] if arguments else 7
        if scale > 7 or scale < 0:
            raise messages.error(1002, line, scale, line=line)
        return SqlType(folded, scale=scale)
    if folded == "float":
        bits = arguments[0] if arguments else 53
        return SqlType("real", precision=24) if bits <= 24 else SqlType("float", precision=53)
    if folded == "sysname":
        return SYSNAME_DECLARED
    fixed = {
        "real": SqlType("real", precision=24),
        "money": SqlType("money", precision=19, scale=4),
        "smallmoney": SqlType("smallmoney", precision=10, scale=4),
        "datetime": SqlType("datetime", scale=3),
        "hierarchyid": HIERARCHYID,
        "geometry": GEOMETRY,
        "geography": GEOGRAPHY,
    }
    if folded in fixed:
        return fixed[folded]
    if folded in _PLAIN:
        return SqlType(folded)
    raise unknown_type(name, line)


def unknown_type(name: str, line: int = 1, ordinal: int = 1) -> SqlError:
    """2715; ``ordinal`` is the place of the column, parameter or variable."""
    return messages.error(2715, ordinal, name, line=line, aborts=Aborts.SCOPE)


def not_a_system_type(name: str, line: int) -> SqlError:
    """243."""
    return messages.error(243, name, line=line)


def is_system_type(name: str) -> bool:
    """Whether a type's name is known without a database."""
    folded = name.lower()
    folded = _ALIASES.get(folded, folded)
    return folded in _SYSTEM or folded in _UNSUPPORTED


def _sized(name: str, arguments: tuple[int, ...], line: int, default_length: int) -> SqlType:
    """A (var)char or (var)binary."""
    length = arguments[0] if arguments else default_length
    limit = _LENGTH_LIMITS[name]
    if length == MAX and not name.startswith(("var", "nvar")):
        raise messages.syntax("max", line)
    if length != MAX and (length > limit or length < 1):
        if length > limit:
            raise messages.error(131, length, "type", name, limit, line=line)
        raise messages.error(1001, line, length, line=line)
    return SqlType(name, length=length)


def _decimal(name: str, arguments: tuple[int, ...], line: int) -> SqlType:
    """Decimal or numeric."""
    precision = arguments[0] if arguments else 18
    scale = arguments[1] if len(arguments) > 1 else 0
    if precision > 38 or precision < 1:
        raise messages.error(2750, precision, line=line)
    if scale > precision:
        raise messages.error(192, line=line)
    return SqlType(name, precision=precision, scale=scale)
