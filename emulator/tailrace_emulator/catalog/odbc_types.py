"""How ODBC sees each data type: what the drivers' metadata procedures report.

https://learn.microsoft.com/sql/relational-databases/system-stored-procedures/sp-datatype-info-transact-sql
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from tailrace_emulator.catalog.type_facts import type_facts
from tailrace_emulator.values.types import CLR_TYPES, MAX, SqlType

ODBC_2: Final = 2
ODBC_3: Final = 3

_CODES: Final = {
    "bit": -7,
    "tinyint": -6,
    "smallint": 5,
    "int": 4,
    "bigint": -5,
    "decimal": 3,
    "numeric": 2,
    "money": 3,
    "smallmoney": 3,
    "float": 6,
    "real": 7,
    "char": 1,
    "varchar": 12,
    "text": -1,
    "nchar": -8,
    "nvarchar": -9,
    "ntext": -10,
    "binary": -2,
    "varbinary": -3,
    "image": -4,
    "timestamp": -2,
    "uniqueidentifier": -11,
    "xml": -152,
    "sql_variant": -150,
    "datetimeoffset": -155,
    "time": -154,
    "date": 91,
    "datetime2": 93,
    "datetime": 93,
    "smalldatetime": 93,
    **dict.fromkeys(CLR_TYPES, -151),
}
_CODES_OF_ODBC_2: Final = {"date": 9, "datetime2": 11, "datetime": 11, "smalldatetime": 11}
_LEGACY_CODES: Final = {"date": -9, "time": -9, "datetime2": -9, "datetimeoffset": -9, "xml": -10}
"""What procedures without the suffix _100 report for types that are newer than they are."""


@dataclass(frozen=True, slots=True)
class OdbcType:
    """A column's type in ODBC's terms.

    Attributes:
        code: shown in the column DATA_TYPE.
        precision: column size in characters or digits.
        length: transfer size in bytes.
        sql_code: shown in the column SQL_DATA_TYPE.
        datetime_sub: shown in the column SQL_DATETIME_SUB.
        octets: shown in the column CHAR_OCTET_LENGTH.
        ss_code: SS_DATA_TYPE, the type token of TDS.
    """

    code: int
    precision: int | None
    length: int
    scale: int | None
    radix: int | None
    sql_code: int
    datetime_sub: int | None
    octets: int | None
    ss_code: int


_SS_CODES: Final = {
    "bit": (50, 50),
    "tinyint": (48, 38),
    "smallint": (52, 38),
    "int": (56, 38),
    "bigint": (63, 108),
    "decimal": (55, 106),
    "numeric": (63, 108),
    "money": (60, 110),
    "smallmoney": (122, 110),
    "float": (62, 109),
    "real": (59, 109),
    "datetime": (61, 111),
    "smalldatetime": (58, 111),
    "char": (47, 39),
    "varchar": (39, 39),
    "text": (35, 35),
    "nchar": (47, 39),
    "nvarchar": (39, 39),
    "ntext": (35, 35),
    "binary": (45, 37),
    "varbinary": (37, 37),
    "image": (34, 34),
    "timestamp": (45, 37),
    "uniqueidentifier": (37, 37),
    "xml": (0, 0),
    "sql_variant": (39, 39),
    "date": (0, 0),
    "time": (0, 0),
    "datetime2": (0, 0),
    "datetimeoffset": (0, 0),
    **dict.fromkeys(CLR_TYPES, (0, 0)),
}


def odbc_type(sql_type: SqlType, nullable: bool, odbc_version: int) -> OdbcType:
    """A declared type in ODBC's terms.

    Args:
        nullable: whether the column is; it changes SS_DATA_TYPE.
        odbc_version: 2 or 3 (and above), which decides the date and time codes.
    """
    name = sql_type.name
    code = _CODES[name]
    if odbc_version < ODBC_3:
        code = _CODES_OF_ODBC_2.get(name, code)
    precision, length = _sizes(sql_type)
    temporal = name in {"date", "time", "datetime2", "datetime", "smalldatetime"}
    sub = {"date": 1, "time": None}.get(name, 3) if temporal else None
    sql_code = 9 if temporal and name != "time" else _CODES[name]
    return OdbcType(
        code=code,
        precision=precision,
        length=length,
        scale=_scale(sql_type),
        radix=_radix(name),
        sql_code=sql_code,
        datetime_sub=sub,
        octets=_octets(sql_type, length),
        ss_code=_SS_CODES[name][int(nullable)],
    )


def _sizes(sql_type: SqlType) -> tuple[int | None, int]:
    name = sql_type.name
    facts = type_facts(sql_type)
    if name in {"decimal", "numeric"}:
        return sql_type.precision, sql_type.precision + 2
    if name in {"nchar", "nvarchar"}:
        return (0, 0) if sql_type.length == MAX else (sql_type.length, 2 * sql_type.length)
    if name in {"char", "varchar", "binary", "varbinary"}:
        return (0, 0) if sql_type.length == MAX else (sql_type.length, sql_type.length)
    fixed = {
        "bit": (1, 1),
        "money": (19, 21),
        "smallmoney": (10, 12),
        "float": (53, 8),
        "real": (24, 4),
        "text": (2147483647, 2147483647),
        "ntext": (1073741823, 2147483646),
        "image": (2147483647, 2147483647),
        "uniqueidentifier": (36, 16),
        "timestamp": (8, 8),
        "xml": (0, 0),
        "sql_variant": (8000, 8000),
        "date": (10, 6),
        "datetime": (23, 16),
        "smalldatetime": (16, 16),
        "hierarchyid": (892, 892),
        "geometry": (0, 0),
        "geography": (0, 0),
    }.get(name)
    if fixed is not None:
        return fixed
    transfer = {"time": 12, "datetime2": 16, "datetimeoffset": 20}.get(name)
    return facts.precision, transfer if transfer is not None else facts.max_length


def _scale(sql_type: SqlType) -> int | None:
    name = sql_type.name
    if sql_type.is_decimal or name in {"time", "datetime2", "datetimeoffset"}:
        return sql_type.scale
    return {
        "tinyint": 0,
        "smallint": 0,
        "int": 0,
        "bigint": 0,
        "datetime": 3,
        "smalldatetime": 0,
    }.get(name)


def _radix(name: str) -> int | None:
    if name in {"float", "real"}:
        return 2
    exact = {"tinyint", "smallint", "int", "bigint", "decimal", "numeric", "money", "smallmoney"}
    return 10 if name in exact else None


def _octets(sql_type: SqlType, length: int) -> int | None:
    strings = {
        *("char", "varchar", "nchar", "nvarchar", "text", "ntext"),
        *("binary", "varbinary", "image", "timestamp", "xml", "sql_variant"),
        *CLR_TYPES,
    }
    return length if sql_type.name in strings else None


def legacy_code(sql_type: SqlType, code: int) -> int:
    """DATA_TYPE as the procedures without a version suffix report it."""
    return _LEGACY_CODES.get(sql_type.name, code)
