"""Conversions to binary types."""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Any

from tailrace_emulator import messages
from tailrace_emulator.messages.errors import SqlError
from tailrace_emulator.tsql.conversions.families import INTEGER_BYTES, Family, family, is_national
from tailrace_emulator.tsql.conversions.xml import xml_bytes
from tailrace_emulator.values.collations import page_of
from tailrace_emulator.values.tds_types import to_wire
from tailrace_emulator.values.types import MAX, SqlType, unpack_decimal, unpack_guid
from tailrace_emulator.wire.errors import RemoteProtocolError
from tailrace_emulator.wire.half_pairs import encode_units
from tailrace_emulator.wire.reader import Reader
from tailrace_emulator.wire.types.decimals import magnitude_bytes
from tailrace_emulator.wire.types.registry import decoder, encoder

_RIGHT_ALIGNED = frozenset({"money", "smallmoney", "datetime", "smalldatetime"})


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
        size = INTEGER_BYTES[source.name]

        def from_integer(value: int) -> bytes:
            raw = value.to_bytes(size, "big", signed=source.name not in {"tinyint", "bit"})
            return _right(raw, length, fixed=fixed)

        return from_integer
    if kind is Family.FLOAT or source.name in _RIGHT_ALIGNED:
        number_of = _number_bytes(source)
        return lambda value: _right(number_of(value), length, fixed=fixed)
    raw_of = _bytes_of(source, kind, style)
    return lambda value: _left(raw_of(value), length, fixed=fixed)


def _bytes_of(source: SqlType, kind: Family, style: int | None) -> Callable[[Any], bytes]:
    """The bytes of text or of a uniqueidentifier."""
    if kind is Family.TEXT:
        if source.name == "xml":
            return xml_bytes
        if style in {1, 2}:
            return lambda value: _from_hexadecimal(value, prefixed=style == 1)
        if is_national(source):
            return encode_units
        return page_of(source.collation).encode
    if kind is Family.GUID:
        return lambda value: unpack_guid(value).bytes_le
    info = to_wire(source)
    encode = encoder(info)
    if kind is Family.DECIMAL:
        return _decimal_bytes(source)
    if kind is Family.DATE:
        return lambda value: encode(value)[1:]
    scale = bytes((source.scale,))
    return lambda value: scale + encode(value)[1:]


def _number_bytes(source: SqlType) -> Callable[[Any], bytes]:
    """Big-endian bytes of float, real, money, smallmoney, datetime and smalldatetime."""
    if source.name in {"float", "real"}:
        return struct.Struct(">d" if source.name == "float" else ">f").pack
    if source.name in {"money", "smallmoney"}:
        size = 8 if source.name == "money" else 4
        return lambda value: unpack_decimal(value).to_bytes(size, "big", signed=True)
    encode = encoder(to_wire(source))
    half = 4 if source.name == "datetime" else 2

    def moment(value: int) -> bytes:
        raw = encode(value)[1:]  # days, then the time of day, both little-endian
        return raw[:half][::-1] + raw[half:][::-1]

    return moment


def _decimal_bytes(source: SqlType) -> Callable[[Any], bytes]:
    """Precision, scale, zero, sign, and the magnitude, little-endian, as CAST writes a decimal."""
    head = bytes((source.precision, source.scale, 0))
    size = magnitude_bytes(source.precision)

    def written(value: int | bytes) -> bytes:
        scaled = unpack_decimal(value)
        return head + bytes((scaled >= 0,)) + abs(scaled).to_bytes(size, "little")

    return written


def moment_of(target: SqlType) -> Callable[[bytes], Any]:
    """From binary to a date or time type: the inverse of what is written here.

    Raises:
        SqlError: 241 where the bytes are no value of the type.
    """
    info = to_wire(target)
    decode = decoder(info)
    half = {"datetime": 4, "smalldatetime": 2}.get(target.name)

    def read(value: bytes) -> Any:
        if half is not None:
            raw = value[-2 * half :].rjust(2 * half, b"\0")
            raw = raw[:half][::-1] + raw[half:][::-1]
        else:
            raw = value if target.name == "date" else value[1:]
            if target.name != "date" and value[:1] != bytes((target.scale,)):
                raise messages.date_conversion_failed()
        if not raw:
            raise messages.date_conversion_failed()
        try:
            return decode(Reader(bytes((len(raw),)) + raw))
        except RemoteProtocolError as error:
            raise messages.date_conversion_failed() from error

    return read


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
    return messages.error(8114, "varchar", "varbinary")


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
