"""Families of types that convert alike."""

from __future__ import annotations

from enum import Enum
from typing import Final

from tailrace_emulator.values.collations import counts_characters
from tailrace_emulator.values.types import CLR_TYPES, UNICODE_TYPES, SqlType


class Family(Enum):
    """What a storage value is."""

    INTEGER = "integer"
    DECIMAL = "decimal"
    FLOAT = "float"
    TEXT = "text"
    BINARY = "binary"
    DATE = "date"
    TIME = "time"
    MOMENT = "moment"
    OFFSET = "offset"
    GUID = "guid"
    VARIANT = "variant"
    CLR = "clr"


_FAMILIES: Final = {
    **dict.fromkeys(("bit", "tinyint", "smallint", "int", "bigint"), Family.INTEGER),
    **dict.fromkeys(("decimal", "numeric", "money", "smallmoney"), Family.DECIMAL),
    **dict.fromkeys(("float", "real"), Family.FLOAT),
    **dict.fromkeys(("char", "varchar", "nchar", "nvarchar", "text", "ntext", "xml"), Family.TEXT),
    **dict.fromkeys(("binary", "varbinary", "image", "timestamp"), Family.BINARY),
    "date": Family.DATE,
    "time": Family.TIME,
    **dict.fromkeys(("datetime2", "datetime", "smalldatetime"), Family.MOMENT),
    "datetimeoffset": Family.OFFSET,
    "uniqueidentifier": Family.GUID,
    "sql_variant": Family.VARIANT,
    **dict.fromkeys(CLR_TYPES, Family.CLR),
}

INTEGER_RANGES: Final = {
    "bit": (0, 1),
    "tinyint": (0, 255),
    "smallint": (-(2**15), 2**15 - 1),
    "int": (-(2**31), 2**31 - 1),
    "bigint": (-(2**63), 2**63 - 1),
}

INTEGER_BYTES: Final = {"bit": 1, "tinyint": 1, "smallint": 2, "int": 4, "bigint": 8}

INTEGER_DIGITS: Final = {"bit": 1, "tinyint": 3, "smallint": 5, "int": 10, "bigint": 19}
"""Precision of an integer type when it meets a decimal."""


def family(sql_type: SqlType) -> Family:
    """The family of a type."""
    return _FAMILIES[sql_type.name]


def is_national(sql_type: SqlType) -> bool:
    """Whether text of this type is UTF-16."""
    return sql_type.name in UNICODE_TYPES


def counts_units(sql_type: SqlType) -> bool:
    """Whether positions in a text count UTF-16 code units: in nchar and nvarchar without _SC.

    See: Collation and Unicode support, supplementary characters.
    """
    return is_national(sql_type) and not counts_characters(sql_type.collation)
