"""DECIMALN, NUMERICN and MONEYN.

Values are integers scaled by 10**scale: an int up to 18 digits, beyond that 16 bytes. These are
big-endian ``scaled + 10**38``, bytes whose order is the numbers' order. The type money has 19
digits, smallmoney 10.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Any, Final

from tailrace_emulator.wire.errors import RemoteProtocolError
from tailrace_emulator.wire.reader import Reader
from tailrace_emulator.wire.types.base import (
    Arguments,
    DataType,
    Decoder,
    Encoder,
    PackPlan,
    TypeInfo,
    Value,
    out_of_range,
    wrong_length,
)

PRECISION_MAX: Final = 38
_BIAS: Final = 10**38
_NARROW_DIGITS: Final = 18
_MONEY_BYTES: Final = {DataType.MONEY: 8, DataType.MONEY4: 4}
_U64: Final = (1 << 64) - 1


def magnitude_bytes(precision: int) -> int:
    """Bytes of the unsigned part of a decimal."""
    if precision <= 9:
        return 4
    if precision <= 19:
        return 8
    return 12 if precision <= 28 else 16


def _scaled(value: Any) -> int:
    return int.from_bytes(value, "big") - _BIAS if isinstance(value, bytes) else value


def _stored(scaled: int, precision: int) -> int | bytes:
    return scaled if precision <= _NARROW_DIGITS else (scaled + _BIAS).to_bytes(16, "big")


class DecimalFamily:
    """decimal and numeric: a sign byte (1 is positive) and a little-endian magnitude."""

    tokens = (
        DataType.DECIMALN,
        DataType.NUMERICN,
        DataType.DECIMAL_LEGACY,
        DataType.NUMERIC_LEGACY,
    )

    def encode_info(self, info: TypeInfo) -> bytes:
        """Length, precision, scale."""
        return bytes((info.length, info.precision, info.scale))

    def decode_info(self, token: DataType, reader: Reader) -> TypeInfo:
        """Length, precision, scale."""
        length, precision, scale = reader.u8(), reader.u8(), reader.u8()
        if not 1 <= precision <= PRECISION_MAX or scale > precision or length > 17:
            raise RemoteProtocolError(f"decimal({precision},{scale}) of {length} bytes")
        return TypeInfo(token, length, precision, scale)

    def encoder(self, info: TypeInfo) -> Encoder:
        """Length byte, sign, magnitude."""
        size = magnitude_bytes(info.precision)
        bound = 10**info.precision

        def encode(value: Any) -> bytes:
            if value is None:
                return b"\0"
            scaled = _scaled(value)
            if not -bound < scaled < bound:
                raise out_of_range(info, scaled)
            return bytes((size + 1, scaled >= 0)) + abs(scaled).to_bytes(size, "little")

        return encode

    def decoder(self, info: TypeInfo) -> Decoder:
        """Length byte (0 is NULL), sign, magnitude."""

        def decode(reader: Reader) -> Value:
            length = reader.u8()
            if length == 0:
                return None
            positive = reader.u8()
            scaled = int.from_bytes(reader.take(length - 1), "little")
            if scaled >= 10**info.precision:
                raise RemoteProtocolError(f"value beyond decimal({info.precision},{info.scale})")
            return _stored(scaled if positive else -scaled, info.precision)

        return decode

    def columns(self, info: TypeInfo) -> PackPlan:
        """Sign and magnitude as struct arguments."""
        size = magnitude_bytes(info.precision)
        wide = info.precision > _NARROW_DIGITS
        bound = 10**info.precision

        def signs_and_magnitudes(
            values: Sequence[Any],
        ) -> tuple[Arguments, Sequence[bytes] | None]:
            if wide:
                values = [int.from_bytes(value, "big") - _BIAS for value in values]
            signs = map((0).__le__, values)
            magnitudes = list(map(abs, values))
            if max(magnitudes) >= bound:
                raise out_of_range(info, max(magnitudes))
            if size <= 8:
                return (signs, magnitudes), None
            return (signs, [m & _U64 for m in magnitudes], [m >> 64 for m in magnitudes]), None

        magnitude = {4: "I", 8: "Q", 12: "QI", 16: "QQ"}[size]
        return PackPlan("?" + magnitude, signs_and_magnitudes, b"\0", prefix=bytes((size + 1,)))


class MoneyFamily:
    """money and smallmoney: integers in ten-thousandths; money's high half comes first."""

    tokens = (DataType.MONEYN, *_MONEY_BYTES)

    def encode_info(self, info: TypeInfo) -> bytes:
        """The length, which the fixed forms leave out."""
        return b"" if info.token in _MONEY_BYTES else bytes((info.length,))

    def decode_info(self, token: DataType, reader: Reader) -> TypeInfo:
        """The length, which the fixed forms leave out."""
        length = _MONEY_BYTES.get(token) or reader.u8()
        if length not in (4, 8):
            raise RemoteProtocolError(f"{token.name} of {length} bytes")
        return TypeInfo(token, length, 19 if length == 8 else 10, 4)

    def encoder(self, info: TypeInfo) -> Encoder:
        """Length byte, then the number."""
        fixed = info.token in _MONEY_BYTES
        prefix = b"" if fixed else bytes((info.length,))

        def encode(value: Any) -> bytes:
            if value is None and not fixed:
                return b"\0"
            if value is None:
                raise out_of_range(info, value)
            scaled = _scaled(value)
            try:
                if info.length == 4:
                    return prefix + struct.pack("<i", scaled)
                return prefix + struct.pack("<iI", scaled >> 32, scaled & 0xFFFFFFFF)
            except struct.error as error:
                raise out_of_range(info, scaled) from error

        return encode

    def decoder(self, info: TypeInfo) -> Decoder:
        """Length byte (0 is NULL), then the number."""
        fixed = info.token in _MONEY_BYTES

        def decode(reader: Reader) -> Value:
            length = info.length if fixed else reader.u8()
            if length == 0:
                return None
            if length != info.length:
                raise wrong_length(info, length)
            if length == 4:
                return reader.i32()
            high = reader.i32()
            return _stored((high << 32) + reader.u32(), info.precision)

        return decode

    def columns(self, info: TypeInfo) -> PackPlan:
        """Halves as struct arguments."""
        prefix = b"" if info.token in _MONEY_BYTES else bytes((info.length,))
        if info.length == 4:
            return PackPlan("i", lambda values: ((values,), None), b"\0", prefix)

        def halves(values: Sequence[Any]) -> tuple[Arguments, Sequence[bytes] | None]:
            scaled = [int.from_bytes(value, "big") - _BIAS for value in values]
            return ([v >> 32 for v in scaled], [v & 0xFFFFFFFF for v in scaled]), None

        return PackPlan("iI", halves, b"\0", prefix)
