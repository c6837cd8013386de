"""SQL Server types and the values that the engine keeps for them.

One value representation runs through storage, log, T-SQL evaluation and the wire: the *storage
value*. It is a plain SQLite value whose SQLite order is SQL Server's order.

======================================  ==================================================
SQL Server type                         storage value
======================================  ==================================================
bit, tinyint, smallint, int, bigint     int
decimal, numeric, money, smallmoney     precision <= 18: int scaled by 10**scale;
                                        else 16 bytes, big-endian ``scaled + 10**38``
float, real                             float
(n)char, (n)varchar, (n)text, xml       str
binary, varbinary, image, rowversion    bytes
date                                    int, days since 0001-01-01
time                                    int, ticks of 100 ns since midnight
datetime2, datetime, smalldatetime      int, ticks of 100 ns since 0001-01-01
datetimeoffset                          str, 23 digits: 19 of UTC ticks, 4 of the offset in minutes
                                        + 1024; a collating function compares the first 19
uniqueidentifier                        16 bytes permuted into SQL Server's sort order
sql_variant                             str, its wire form (variants.py): its order is a
                                        collating function's
hierarchyid, geometry, geography        bytes, as the type serialises itself (MS-SSCLRT)
======================================  ==================================================

``money`` is decimal(19,4) and therefore 16 bytes; ``smallmoney`` is decimal(10,4). NULL is None.
"""

from __future__ import annotations

import uuid
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Final

StorageValue = int | float | str | bytes | None
"""What SQLite holds and what every compiled expression yields."""

MAX: Final = -1
"""Length of a (max) type."""

DEFAULT_COLLATION: Final = "SQL_Latin1_General_CP1_CI_AS"

TICKS_PER_DAY: Final = 864_000_000_000
DECIMAL_BIAS: Final = 10**38

INTEGER_TYPES: Final = ("bit", "tinyint", "smallint", "int", "bigint")
UNICODE_TYPES: Final = frozenset({"nchar", "nvarchar", "ntext", "xml", "sysname"})
CHARACTER_TYPES: Final = ("char", "varchar", "nchar", "nvarchar", "text", "ntext", "xml", "sysname")
BINARY_TYPES: Final = ("binary", "varbinary", "image", "timestamp", "rowversion")
DECIMAL_TYPES: Final = ("decimal", "numeric", "money", "smallmoney")
CLR_TYPES: Final = frozenset({"hierarchyid", "geometry", "geography"})
"""SQL Server's own CLR types."""
INCOMPARABLE_TYPES: Final = frozenset({"text", "ntext", "image", "xml", "geometry", "geography"})
"""Types whose values are neither compared nor sorted."""
TICK_TYPES: Final = ("datetime2", "datetime", "smalldatetime")


@dataclass(frozen=True, slots=True)
class SqlType:
    """A SQL Server type as declared.

    Attributes:
        name: lower-case type name; ``sysname`` is written ``nvarchar`` with length 128,
            ``rowversion`` is written ``timestamp``.
        length: declared length of (var)char and (var)binary in bytes, of n(var)char in
            characters, ``MAX`` for (max); 0 where the type has none.
        precision: total digits of decimal/numeric, 53 or 24 of float/real; else 0.
        scale: digits after the point of decimal, fractional-second digits of the time types.
        collation: of character types only; None where it was declared without one: the
            database's.
    """

    name: str
    length: int = 0
    precision: int = 0
    scale: int = 0
    collation: str | None = None

    @property
    def is_character(self) -> bool:
        """Whether the storage value is a str."""
        return self.name in CHARACTER_TYPES

    @property
    def is_decimal(self) -> bool:
        """Whether the storage value is a scaled integer (or its 16 bytes)."""
        return self.name in DECIMAL_TYPES

    @property
    def is_wide_decimal(self) -> bool:
        """Whether the scaled integer is kept in 16 biased bytes."""
        return self.is_decimal and self.precision > 18

    def collated(self, collation: str | None) -> SqlType:
        """The type in a database of that collation, which declared text without COLLATE takes."""
        if self.collation is not None or collation is None or not self.is_character:
            return self
        return _collated(self, collation)

    def __str__(self) -> str:
        """The declaration, as DDL would write it."""
        if self.name in {"decimal", "numeric"}:
            return f"{self.name}({self.precision},{self.scale})"
        if self.name in {"char", "varchar", "nchar", "nvarchar", "binary", "varbinary"}:
            return f"{self.name}({'max' if self.length == MAX else self.length})"
        if self.name in {"time", "datetime2", "datetimeoffset"}:
            return f"{self.name}({self.scale})"
        return self.name


@lru_cache(maxsize=1024)
def _collated(sql_type: SqlType, collation: str) -> SqlType:
    return replace(sql_type, collation=collation)


BIT: Final = SqlType("bit")
TINYINT: Final = SqlType("tinyint")
SMALLINT: Final = SqlType("smallint")
INT: Final = SqlType("int")
BIGINT: Final = SqlType("bigint")
FLOAT: Final = SqlType("float", precision=53)
REAL: Final = SqlType("real", precision=24)
MONEY: Final = SqlType("money", precision=19, scale=4)
SMALLMONEY: Final = SqlType("smallmoney", precision=10, scale=4)
DATE: Final = SqlType("date")
DATETIME: Final = SqlType("datetime", scale=3)
SMALLDATETIME: Final = SqlType("smalldatetime")
SQL_VARIANT: Final = SqlType("sql_variant")
UNIQUEIDENTIFIER: Final = SqlType("uniqueidentifier")
SYSNAME: Final = SqlType("nvarchar", length=128, collation=DEFAULT_COLLATION)
SYSNAME_USER_TYPE_ID: Final = 256
"""Of columns that are declared sysname; their type itself is nvarchar(128)."""
HIERARCHYID: Final = SqlType("hierarchyid", length=892)
GEOMETRY: Final = SqlType("geometry", length=MAX)
GEOGRAPHY: Final = SqlType("geography", length=MAX)
LSN: Final = SqlType("binary", length=10)


def decimal_type(precision: int, scale: int) -> SqlType:
    """decimal(precision, scale)."""
    return SqlType("decimal", precision=precision, scale=scale)


def nvarchar(length: int) -> SqlType:
    """An nvarchar of that many characters in the default collation."""
    return SqlType("nvarchar", length=length, collation=DEFAULT_COLLATION)


def varchar(length: int) -> SqlType:
    """A varchar of that many bytes in the default collation."""
    return SqlType("varchar", length=length, collation=DEFAULT_COLLATION)


def varbinary(length: int) -> SqlType:
    """A varbinary of that many bytes."""
    return SqlType("varbinary", length=length)


def pack_decimal(scaled: int, sql_type: SqlType) -> int | bytes:
    """The storage value of ``scaled / 10**scale`` in a decimal type."""
    if sql_type.precision > 18:
        return (scaled + DECIMAL_BIAS).to_bytes(16, "big")
    return scaled


def unpack_decimal(value: int | bytes) -> int:
    """The scaled integer of a decimal's storage value."""
    if isinstance(value, bytes):
        return int.from_bytes(value, "big") - DECIMAL_BIAS
    return value


def pack_guid(value: uuid.UUID) -> bytes:
    """The storage value of a uniqueidentifier: its bytes in SQL Server's comparison order.

    SQL Server compares bytes 10-15 of the 16 (as stored little-endian) first, then 8-9, 6-7, 4-5
    and 0-3.
    """
    raw = value.bytes_le
    return raw[10:16] + raw[8:10] + raw[6:8] + raw[4:6] + raw[0:4]


def unpack_guid(value: bytes) -> uuid.UUID:
    """The inverse of :func:`pack_guid`."""
    return uuid.UUID(bytes_le=value[12:16] + value[10:12] + value[8:10] + value[6:8] + value[0:6])


OFFSET_KEY_LENGTH: Final = 19
"""Digits of a datetimeoffset's storage value by which it compares: the offset does not count."""


def pack_offset(utc_ticks: int, offset_minutes: int) -> str:
    """The storage value of a datetimeoffset."""
    return f"{utc_ticks:019d}{offset_minutes + 1024:04d}"


def unpack_offset(value: str) -> tuple[int, int]:
    """(UTC ticks, offset in minutes) of a datetimeoffset's storage value."""
    return int(value[:OFFSET_KEY_LENGTH]), int(value[OFFSET_KEY_LENGTH:]) - 1024
