"""Conversions to binary types."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from emulator.collations import page_of
from emulator.errors import SqlError, not_supported
from emulator.tsql.conversions.families import Family, family, is_national
from emulator.types import MAX, SqlType, unpack_guid

_INTEGER_SIZES = {"bit": 1, "tinyint": 1, "smallint": 2, "int": 4, "bigint": 8}


def to_binary(source: SqlType, target: SqlType, style: int | None) -> Callable[[Any], bytes] | None:
    """To binary, varbinary, image and rowversion.

    Numbers are right-aligned (padded or cut on the left), everything else is left-aligned.
    """
    kind = family(source)
    length = 8 if target.name == "timestamp" else target.length
    if target.name == "image":
        length = MAX
    fixed = target.name in {"binary", "timestamp"}
    if kind is Family.BINARY:
        known = 8 if source.name == "timestamp" else source.length
        if length == MAX or (not fixed and 0 < known <= length):
            return None
        if fixed and source.name in {"binary", "timestamp"} and known == length:
            return None
        return lambda value: _left(value, length, fixed=fixed)
    if kind is Family.INTEGER:
        size = _INTEGER_SIZES[source.name]

        def from_integer(value: int) -> bytes:
            raw = value.to_bytes(size, "big", signed=source.name not in {"tinyint", "bit"})
            return _right(raw, length, fixed=fixed)

        return from_integer
    raw_of = _bytes_of(source, kind, style)
    return lambda value: _left(raw_of(value), length, fixed=fixed)


def _bytes_of(source: SqlType, kind: Family, style: int | None) -> Callable[[Any], bytes]:
    """The bytes of text or of a uniqueidentifier."""
    if kind is Family.TEXT:
        if style in {1, 2}:
            return lambda value: _from_hexadecimal(value, prefixed=style == 1)
        if is_national(source):
            return lambda value: value.encode("utf-16-le", "surrogatepass")
        return page_of(source.collation).encode
    if kind is Family.GUID:
        return lambda value: unpack_guid(value).bytes_le
    raise not_supported(f"the conversion of {source.name} to binary")


def _from_hexadecimal(value: str, *, prefixed: bool) -> bytes:
    """Style 1 ('0x0F') and 2 ('0F')."""
    digits = value[2:] if prefixed and value[:2].lower() == "0x" else value
    try:
        if prefixed and value[:2].lower() != "0x":
            raise _bad_hexadecimal()
        return bytes.fromhex(digits)
    except ValueError as error:
        raise _bad_hexadecimal() from error


def _bad_hexadecimal() -> SqlError:
    """8114 of style 1 and 2."""
    return SqlError(
        8114, "Error converting data type varchar to varbinary.", state=5, aborts="transaction"
    )


def _left(value: bytes, length: int, *, fixed: bool) -> bytes:
    """Cut and padded on the right."""
    if length != MAX:
        value = value[:length]
        if fixed:
            value = value.ljust(length, b"\0")
    return value


def _right(value: bytes, length: int, *, fixed: bool) -> bytes:
    """Cut and padded on the left."""
    if length != MAX:
        value = value[-length:]
        if fixed:
            value = value.rjust(length, b"\0")
    return value
