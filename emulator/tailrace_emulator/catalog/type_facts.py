"""What the catalog says of each data type: ids, sizes, precision and scale.

https://learn.microsoft.com/sql/relational-databases/system-catalog-views/sys-types-transact-sql
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from tailrace_emulator.values.types import MAX, SqlType

SYSTEM_TYPE_IDS: Final = {
    "image": 34,
    "text": 35,
    "uniqueidentifier": 36,
    "date": 40,
    "time": 41,
    "datetime2": 42,
    "datetimeoffset": 43,
    "tinyint": 48,
    "smallint": 52,
    "int": 56,
    "smalldatetime": 58,
    "real": 59,
    "money": 60,
    "datetime": 61,
    "float": 62,
    "sql_variant": 98,
    "ntext": 99,
    "bit": 104,
    "decimal": 106,
    "numeric": 108,
    "smallmoney": 122,
    "bigint": 127,
    "varbinary": 165,
    "varchar": 167,
    "binary": 173,
    "char": 175,
    "timestamp": 189,
    "nvarchar": 231,
    "nchar": 239,
    "xml": 241,
}

CLR_SYSTEM_TYPE_ID: Final = 240
CLR_TYPE_IDS: Final = {"hierarchyid": 128, "geometry": 129, "geography": 130}
"""user_type_id of SQL Server's own CLR types, which share one system_type_id."""

_FIXED: Final = {  # bytes, precision and scale by name
    "bit": (1, 1, 0),
    "tinyint": (1, 3, 0),
    "smallint": (2, 5, 0),
    "int": (4, 10, 0),
    "bigint": (8, 19, 0),
    "money": (8, 19, 4),
    "smallmoney": (4, 10, 4),
    "float": (8, 53, 0),
    "real": (4, 24, 0),
    "date": (3, 10, 0),
    "datetime": (8, 23, 3),
    "smalldatetime": (4, 16, 0),
    "uniqueidentifier": (16, 0, 0),
    "timestamp": (8, 0, 0),
    "text": (16, 0, 0),
    "ntext": (16, 0, 0),
    "image": (16, 0, 0),
    "xml": (-1, 0, 0),
    "sql_variant": (8016, 0, 0),
}


@dataclass(frozen=True, slots=True)
class TypeFacts:
    """A declared type as sys.columns shows it; ``max_length`` in bytes, -1 for (max)."""

    system_type_id: int
    user_type_id: int
    max_length: int
    precision: int
    scale: int


def type_facts(sql_type: SqlType) -> TypeFacts:
    """The facts of a declared type."""
    if sql_type.name in CLR_TYPE_IDS:
        user_type_id = CLR_TYPE_IDS[sql_type.name]
        return TypeFacts(CLR_SYSTEM_TYPE_ID, user_type_id, sql_type.length, 0, 0)
    type_id = SYSTEM_TYPE_IDS[sql_type.name]
    fixed = _FIXED.get(sql_type.name)
    if fixed is not None:
        return TypeFacts(type_id, type_id, *fixed)
    if sql_type.name in {"decimal", "numeric"}:
        return TypeFacts(
            type_id, type_id, decimal_bytes(sql_type.precision), sql_type.precision, sql_type.scale
        )
    if sql_type.name in {"time", "datetime2", "datetimeoffset"}:
        return _time_facts(type_id, sql_type)
    if sql_type.length == MAX:
        return TypeFacts(type_id, type_id, -1, 0, 0)
    width = 2 if sql_type.name in {"nchar", "nvarchar"} else 1
    return TypeFacts(type_id, type_id, sql_type.length * width, 0, 0)


def decimal_bytes(precision: int) -> int:
    """Storage size of a decimal."""
    for digits, size in ((9, 5), (19, 9), (28, 13)):
        if precision <= digits:
            return size
    return 17


def _time_facts(type_id: int, sql_type: SqlType) -> TypeFacts:
    size = 3 if sql_type.scale <= 2 else 4 if sql_type.scale <= 4 else 5
    extra, width = {"time": (0, 8), "datetime2": (3, 19), "datetimeoffset": (5, 26)}[sql_type.name]
    precision = width if sql_type.scale == 0 else width + 1 + sql_type.scale
    return TypeFacts(type_id, type_id, size + extra, precision, sql_type.scale)


def character_length(sql_type: SqlType) -> int | None:
    """CHARACTER_MAXIMUM_LENGTH: characters or bytes, -1 for (max), None for other types."""
    if sql_type.name in {"text", "image"}:
        return 2147483647
    if sql_type.name == "ntext":
        return 1073741823
    if sql_type.name == "xml":
        return -1
    if sql_type.name in {"char", "varchar", "nchar", "nvarchar", "binary", "varbinary"}:
        return sql_type.length
    return None


def octet_length(sql_type: SqlType) -> int | None:
    """CHARACTER_OCTET_LENGTH."""
    length = character_length(sql_type)
    if length is None or length < 0:
        return length
    if sql_type.name == "ntext":
        return 2147483646
    return 2 * length if sql_type.name in {"nchar", "nvarchar"} else length


def numeric_facts(sql_type: SqlType) -> tuple[int | None, int | None, int | None]:
    """NUMERIC_PRECISION, NUMERIC_PRECISION_RADIX, NUMERIC_SCALE; None for other types.

    bit is not numeric here, as in INFORMATION_SCHEMA.
    """
    if sql_type.name in {"float", "real"}:
        return type_facts(sql_type).precision, 2, None
    if sql_type.is_decimal or sql_type.name in {"tinyint", "smallint", "int", "bigint"}:
        facts = type_facts(sql_type)
        return facts.precision, 10, facts.scale
    return None, None, None


def datetime_precision(sql_type: SqlType) -> int | None:
    """DATETIME_PRECISION: fractional digits of the date and time types; None for other types."""
    if sql_type.name in {"time", "datetime2", "datetimeoffset"}:
        return sql_type.scale
    return {"date": 0, "datetime": 3, "smalldatetime": 0}.get(sql_type.name)
