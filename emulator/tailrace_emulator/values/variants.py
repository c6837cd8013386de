"""Values of sql_variant: packing any base type, taking it apart, ordering.

A value is kept as it travels (wire/types/variants.py), as a str whose characters are bytes, so that
SQLite can order it by a collating function. Values of one family of types compare as numbers,
moments or texts whatever their type; of two families, the higher one is greater.

https://learn.microsoft.com/sql/t-sql/data-types/sql-variant-transact-sql
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any, Final

from tailrace_emulator.values.collations import all_collations, collation, find_collation
from tailrace_emulator.values.tds_types import column_to_wire, from_wire
from tailrace_emulator.values.types import (
    CLR_TYPES,
    DEFAULT_COLLATION,
    MAX,
    TICKS_PER_DAY,
    SqlType,
    StorageValue,
    unpack_decimal,
    unpack_offset,
)
from tailrace_emulator.wire.reader import Reader
from tailrace_emulator.wire.types.base import DataType, Decoder, TypeInfo
from tailrace_emulator.wire.types.registry import decoder, encoder
from tailrace_emulator.wire.types.times import time_bytes
from tailrace_emulator.wire.types.variants import PROPERTY_BYTES

NOT_HELD: Final = CLR_TYPES | {"text", "ntext", "image", "timestamp", "xml", "sql_variant"}
"""Types that sql_variant cannot hold, besides the (max) ones."""

_LENGTH_BYTES: Final = {
    DataType.GUID: 1,
    DataType.DATEN: 1,
    DataType.TIMEN: 1,
    DataType.DATETIME2N: 1,
    DataType.DATETIMEOFFSETN: 1,
    DataType.NUMERICN: 1,
    DataType.DECIMALN: 1,
    DataType.BIGVARBINARY: 2,
    DataType.BIGBINARY: 2,
    DataType.BIGVARCHAR: 2,
    DataType.BIGCHAR: 2,
    DataType.NVARCHAR: 2,
    DataType.NCHAR: 2,
}
"""Bytes of the length that a value has elsewhere and not inside a sql_variant."""

_COMMON_SCALE: Final = 38
_DAYS_TO_1900: Final = 693_595
_RANKS: Final = {
    "uniqueidentifier": 1,
    **dict.fromkeys(("binary", "varbinary"), 2),
    **dict.fromkeys(("char", "varchar", "nchar", "nvarchar"), 3),
    **dict.fromkeys(("bit", "tinyint", "smallint", "int", "bigint", "smallmoney", "money",
                     "decimal", "numeric"), 4),
    **dict.fromkeys(("real", "float"), 5),
    **dict.fromkeys(("time", "date", "smalldatetime", "datetime", "datetime2",
                     "datetimeoffset"), 6),
}  # fmt: skip
"""Families, lowest first."""


def can_hold(sql_type: SqlType) -> bool:
    """Whether a sql_variant can hold values of a type."""
    return sql_type.name not in NOT_HELD and sql_type.length != MAX


@lru_cache(maxsize=1024)
def packer(sql_type: SqlType) -> Callable[[Any], str]:
    """From values of a type that a sql_variant can hold to the sql_variant."""
    info = column_to_wire(sql_type, nullable=False)
    token = info.token
    head = bytes((token, PROPERTY_BYTES[token])) + _properties(info)
    encode = encoder(info)
    skipped = _LENGTH_BYTES.get(token, 0)
    return lambda value: (head + encode(value)[skipped:]).decode("latin-1")


def _properties(info: TypeInfo) -> bytes:
    """The properties of a base type."""
    token = info.token
    if token in (DataType.TIMEN, DataType.DATETIME2N, DataType.DATETIMEOFFSETN):
        return bytes((info.scale,))
    if token in (DataType.NUMERICN, DataType.DECIMALN):
        return bytes((info.precision, info.scale))
    if PROPERTY_BYTES[token]:
        return info.collation + info.length.to_bytes(2, "little")
    return b""


@lru_cache(maxsize=1024)
def _base(head: bytes) -> tuple[SqlType, int, Decoder]:
    """Type, bytes of its length elsewhere and decoder of a base type with its properties."""
    token, properties = DataType(head[0]), head[2:]
    length = precision = scale = 0
    text = b""
    if token in (DataType.TIMEN, DataType.DATETIME2N, DataType.DATETIMEOFFSETN):
        scale = properties[0]
        length = time_bytes(scale) + {DataType.TIMEN: 0, DataType.DATETIME2N: 3}.get(token, 5)
    elif token in (DataType.NUMERICN, DataType.DECIMALN):
        precision, scale = properties
        length = 17
    elif properties:
        text, length = properties[:-2], int.from_bytes(properties[-2:], "little")
    else:
        length = {DataType.GUID: 16, DataType.DATEN: 3}.get(token, _FIXED_BYTES.get(token, 0))
    info = TypeInfo(token, length, precision, scale, text)
    sql_type = from_wire(info)
    if sql_type.is_character:
        sql_type = SqlType(sql_type.name, sql_type.length, collation=_collation_name(text))
    return sql_type, _LENGTH_BYTES.get(token, 0), decoder(info)


_FIXED_BYTES: Final = {
    DataType.BIT: 1, DataType.INT1: 1, DataType.INT2: 2, DataType.INT4: 4, DataType.INT8: 8,
    DataType.FLT4: 4, DataType.FLT8: 8, DataType.MONEY4: 4, DataType.MONEY: 8,
    DataType.DATETIM4: 4, DataType.DATETIME: 8,
}  # fmt: skip


def unpacked(value: str) -> tuple[SqlType, StorageValue]:
    """The base type of a sql_variant and its value."""
    raw = value.encode("latin-1")
    start = 2 + raw[1]
    sql_type, length_bytes, decode = _base(raw[:start])
    body = raw[start:]
    length = len(body).to_bytes(length_bytes, "little") if length_bytes else b""
    return sql_type, decode(Reader(length + body))


def data_bytes(value: str) -> int:
    """Bytes of the base value, without its type."""
    return len(value) - 2 - ord(value[1])


@lru_cache(maxsize=1)
def _names_by_wire() -> dict[bytes, str]:
    """Collation names by their bytes; of several that travel alike, the shortest."""
    names: dict[bytes, str] = {}
    for found in sorted(all_collations(), key=lambda c: len(c.name), reverse=True):
        names[found.wire] = found.name
    return names


def _collation_name(wire: bytes) -> str:
    if wire == collation(None).wire:
        return DEFAULT_COLLATION
    return _names_by_wire().get(wire, DEFAULT_COLLATION)


def variant_key(value: str, text_key: Callable[[str, str | None], str]) -> tuple[Any, ...]:
    """What orders sql_variants: the family, then the value.

    Args:
        text_key: the key of a text under a collation name.
    """
    sql_type, base = unpacked(value)
    rank = _RANKS[sql_type.name]
    name = sql_type.name
    if rank == 3:
        found = find_collation(sql_type.collation or DEFAULT_COLLATION) or collation(None)
        info = int.from_bytes(found.wire[:4], "little")
        order = (info & 0xFFFFF, info >> 28, info >> 20 & 0xFF, found.sort_id)
        return rank, order, text_key(str(base), found.name)
    if isinstance(base, bytes) and name in {"binary", "varbinary"}:
        return rank, base.rstrip(b"\0")
    if sql_type.is_decimal:
        scaled = unpack_decimal(base)  # type: ignore[arg-type]  # a decimal's value
        return rank, scaled * int(10 ** (_COMMON_SCALE - sql_type.scale))
    if name in {"bit", "tinyint", "smallint", "int", "bigint"}:
        return rank, base * 10**_COMMON_SCALE
    if name == "date":
        return rank, base * TICKS_PER_DAY  # type: ignore[operator]  # an int
    if name == "time":
        return rank, base + _DAYS_TO_1900 * TICKS_PER_DAY  # type: ignore[operator]  # an int
    if name == "datetimeoffset":
        return rank, unpack_offset(base)[0]  # type: ignore[arg-type]  # its ten bytes
    return rank, base
