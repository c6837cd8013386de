"""SQL Server types as declared <-> TYPE_INFO on the wire.

What a client learns of a column is exactly this mapping: a wrong precision here is a wrong schema
there.
"""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache
from typing import Final

from tailrace_emulator.messages.errors import not_supported
from tailrace_emulator.values.collations import collation
from tailrace_emulator.values.types import (
    BIGINT,
    BIT,
    CLR_TYPES,
    DATE,
    DATETIME,
    DEFAULT_COLLATION,
    FLOAT,
    GEOGRAPHY,
    GEOMETRY,
    HIERARCHYID,
    INT,
    MAX,
    MONEY,
    REAL,
    SMALLDATETIME,
    SMALLINT,
    SMALLMONEY,
    SQL_VARIANT,
    TINYINT,
    UNIQUEIDENTIFIER,
    SqlType,
    nvarchar,
)
from tailrace_emulator.wire.types import DEFAULT_COLLATION_BYTES, PLP, DataType, TypeInfo
from tailrace_emulator.wire.types.decimals import magnitude_bytes
from tailrace_emulator.wire.types.pointed import LONG_BYTES
from tailrace_emulator.wire.types.times import time_bytes
from tailrace_emulator.wire.types.variants import VARIANT_BYTES

TIMESTAMP_USER_TYPE: Final = 80
"""UserType by which a client distinguishes rowversion from binary(8)."""

_BYTES_MAX: Final = 8000
_PLAIN: Final = {
    "bit": TypeInfo(DataType.BITN, 1),
    "tinyint": TypeInfo(DataType.INTN, 1),
    "smallint": TypeInfo(DataType.INTN, 2),
    "int": TypeInfo(DataType.INTN, 4),
    "bigint": TypeInfo(DataType.INTN, 8),
    "real": TypeInfo(DataType.FLTN, 4),
    "float": TypeInfo(DataType.FLTN, 8),
    "money": TypeInfo(DataType.MONEYN, 8, 19, 4),
    "smallmoney": TypeInfo(DataType.MONEYN, 4, 10, 4),
    "date": TypeInfo(DataType.DATEN, 3),
    "datetime": TypeInfo(DataType.DATETIMEN, 8),
    "smalldatetime": TypeInfo(DataType.DATETIMEN, 4),
    "uniqueidentifier": TypeInfo(DataType.GUID, 16),
    "timestamp": TypeInfo(DataType.BIGBINARY, 8),
    "rowversion": TypeInfo(DataType.BIGBINARY, 8),
    "image": TypeInfo(DataType.IMAGE, LONG_BYTES),
    "xml": TypeInfo(DataType.XML, PLP),
    "sql_variant": TypeInfo(DataType.SSVARIANT, VARIANT_BYTES),
    "sysname": TypeInfo(DataType.NVARCHAR, 256, collation=DEFAULT_COLLATION_BYTES),
}

_LONG_TEXTS: Final = {
    "text": (DataType.TEXT, LONG_BYTES),
    "ntext": (DataType.NTEXT, LONG_BYTES - 1),
}
_SIZED: Final = {
    "char": (DataType.BIGCHAR, 1),
    "varchar": (DataType.BIGVARCHAR, 1),
    "nchar": (DataType.NCHAR, 2),
    "nvarchar": (DataType.NVARCHAR, 2),
    "binary": (DataType.BIGBINARY, 1),
    "varbinary": (DataType.BIGVARBINARY, 1),
}
_SCALED_TIMES: Final = {
    "time": (DataType.TIMEN, 0),
    "datetime2": (DataType.DATETIME2N, 3),
    "datetimeoffset": (DataType.DATETIMEOFFSETN, 5),
}


@lru_cache(maxsize=4096)
def to_wire(sql_type: SqlType) -> TypeInfo:
    """TYPE_INFO of a declared type.

    Raises:
        SqlError: 50900, the type cannot be sent.
    """
    name = sql_type.name
    if name in _PLAIN:
        return _PLAIN[name]
    if name in _LONG_TEXTS:
        token, length = _LONG_TEXTS[name]
        return TypeInfo(token, length, collation=collation(sql_type.collation).wire)
    if name in {"decimal", "numeric"}:
        token = DataType.DECIMALN if name == "decimal" else DataType.NUMERICN
        size = magnitude_bytes(sql_type.precision) + 1
        return TypeInfo(token, size, sql_type.precision, sql_type.scale)
    if name in _SCALED_TIMES:
        token, extra = _SCALED_TIMES[name]
        return TypeInfo(token, time_bytes(sql_type.scale) + extra, scale=sql_type.scale)
    if name in _SIZED:
        token, unit = _SIZED[name]
        wire = collation(sql_type.collation).wire if sql_type.is_character else b""
        # The length of a constant '' is reported as one.
        length = max(sql_type.length, 1) * unit
        if sql_type.length == MAX or length > _BYTES_MAX:
            length = PLP
        return TypeInfo(token, length, collation=wire)
    if name in CLR_TYPES:
        length = PLP if sql_type.length == MAX else sql_type.length
        type_name = ("master", "sys", name)
        return TypeInfo(
            DataType.UDT, length, type_name=type_name, assembly_name=assembly_name(name)
        )
    raise not_supported(f"results of type {name}")


def assembly_name(name: str) -> str:
    """The class of a CLR type, with its assembly, as results and sys.assembly_types name it."""
    return (
        f"Microsoft.SqlServer.Types.Sql{_CLASSES[name]}, Microsoft.SqlServer.Types,"
        " Version=11.0.0.0, Culture=neutral, PublicKeyToken=89845dcd8080cc91"
    )


_CLASSES: Final = {
    "hierarchyid": "HierarchyId",
    "geometry": "Geometry",
    "geography": "Geography",
}
_CLR: Final = {found.name: found for found in (HIERARCHYID, GEOMETRY, GEOGRAPHY)}


_FIXED: Final = {
    (DataType.BITN, 1): DataType.BIT,
    (DataType.INTN, 1): DataType.INT1,
    (DataType.INTN, 2): DataType.INT2,
    (DataType.INTN, 4): DataType.INT4,
    (DataType.INTN, 8): DataType.INT8,
    (DataType.FLTN, 4): DataType.FLT4,
    (DataType.FLTN, 8): DataType.FLT8,
    (DataType.MONEYN, 4): DataType.MONEY4,
    (DataType.MONEYN, 8): DataType.MONEY,
    (DataType.DATETIMEN, 4): DataType.DATETIM4,
    (DataType.DATETIMEN, 8): DataType.DATETIME,
}


@lru_cache(maxsize=4096)
def column_to_wire(sql_type: SqlType, *, nullable: bool) -> TypeInfo:
    """TYPE_INFO of a result column: one that is NOT NULL travels in the fixed form if it has one.

    Raises:
        SqlError: 50900, the type cannot be sent.
    """
    info = to_wire(sql_type)
    fixed = None if nullable else _FIXED.get((info.token, info.length))
    return info if fixed is None else replace(info, token=fixed)


@lru_cache(maxsize=4096)
def from_wire(info: TypeInfo) -> SqlType:
    """The declared type that a parameter's TYPE_INFO means."""
    named = _BY_SIZE.get((info.token, info.length))
    if named is not None:
        return named
    if info.token in _DECIMALS:
        return SqlType(_DECIMALS[info.token], precision=info.precision, scale=info.scale)
    if info.token in _TIMES:
        return SqlType(_TIMES[info.token], scale=info.scale)
    if info.token is DataType.SSVARIANT:
        return SQL_VARIANT
    if info.token is DataType.XML:
        return SqlType("xml", collation=DEFAULT_COLLATION)
    if info.token is DataType.UDT:
        clr = _CLR.get(info.type_name[-1].casefold())
        if clr is None:
            raise not_supported(f"parameters of the CLR type {info.type_name[-1]}")
        return clr
    name, unit = _VARYING[info.token]
    length = MAX if unit == 0 or info.length == PLP else max(info.length // unit, 1)
    return SqlType(name, length=length, collation=None if "binary" in name else DEFAULT_COLLATION)


def sent_type(info: TypeInfo) -> SqlType:
    """As :func:`from_wire`, of a value from a client: its xml is text that nobody has read."""
    return nvarchar(MAX) if info.token is DataType.XML else from_wire(info)


_BY_SIZE: Final = {
    (DataType.BITN, 1): BIT,
    (DataType.BIT, 1): BIT,
    (DataType.INTN, 1): TINYINT,
    (DataType.INT1, 1): TINYINT,
    (DataType.INTN, 2): SMALLINT,
    (DataType.INT2, 2): SMALLINT,
    (DataType.INTN, 4): INT,
    (DataType.INT4, 4): INT,
    (DataType.INTN, 8): BIGINT,
    (DataType.INT8, 8): BIGINT,
    (DataType.FLTN, 4): REAL,
    (DataType.FLT4, 4): REAL,
    (DataType.FLTN, 8): FLOAT,
    (DataType.FLT8, 8): FLOAT,
    (DataType.MONEYN, 4): SMALLMONEY,
    (DataType.MONEY4, 4): SMALLMONEY,
    (DataType.MONEYN, 8): MONEY,
    (DataType.MONEY, 8): MONEY,
    (DataType.DATETIMEN, 4): SMALLDATETIME,
    (DataType.DATETIM4, 4): SMALLDATETIME,
    (DataType.DATETIMEN, 8): DATETIME,
    (DataType.DATETIME, 8): DATETIME,
    (DataType.DATEN, 3): DATE,
    (DataType.GUID, 16): UNIQUEIDENTIFIER,
    (DataType.NULL, 0): INT,  # the type of a bare NULL
}
_DECIMALS: Final = {
    DataType.DECIMALN: "decimal",
    DataType.DECIMAL_LEGACY: "decimal",
    DataType.NUMERICN: "numeric",
    DataType.NUMERIC_LEGACY: "numeric",
}
_TIMES: Final = {
    DataType.TIMEN: "time",
    DataType.DATETIME2N: "datetime2",
    DataType.DATETIMEOFFSETN: "datetimeoffset",
}
_VARYING: Final = {
    DataType.NVARCHAR: ("nvarchar", 2),
    DataType.NCHAR: ("nchar", 2),
    DataType.BIGVARCHAR: ("varchar", 1),
    DataType.VARCHAR_LEGACY: ("varchar", 1),
    DataType.BIGCHAR: ("char", 1),
    DataType.CHAR_LEGACY: ("char", 1),
    DataType.BIGVARBINARY: ("varbinary", 1),
    DataType.VARBINARY_LEGACY: ("varbinary", 1),
    DataType.BIGBINARY: ("binary", 1),
    DataType.BINARY_LEGACY: ("binary", 1),
    DataType.TEXT: ("varchar", 0),
    DataType.NTEXT: ("nvarchar", 0),
    DataType.IMAGE: ("varbinary", 0),
}
