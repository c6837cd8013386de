"""DATEN, TIMEN, DATETIME2N, DATETIMEOFFSETN and DATETIMEN.

A date is days since 0001-01-01, a time 100 ns since midnight. Values of datetime2, datetime and
smalldatetime are 100 ns since 0001-01-01. A datetimeoffset is 23 digits, UTC ticks (19) and offset
in minutes + 1024 (4).

datetime counts 1/300 s on the wire. A tick value is rounded to the nearest of them, and one of them
comes back as the nearest tick. So .003333 s and .003 s are the same datetime.
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
    whole_values,
    wrong_length,
)

SCALE_MAX: Final = 7
TICKS_PER_DAY: Final = 864_000_000_000
_DAYS_MAX: Final = 3_652_058  # 9999-12-31
_TICKS_END: Final = (_DAYS_MAX + 1) * TICKS_PER_DAY
_DAYS_TO_1900: Final = 693_595
_TICKS_PER_MINUTE: Final = 600_000_000
_UNITS_PER_DAY: Final = 300 * 86_400
_OFFSET_BIAS: Final = 1024
_TICK_DIGITS: Final = 19
_OFFSET_DIGITS: Final = 23
_DATETIME_BYTES: Final = {DataType.DATETIME: 8, DataType.DATETIM4: 4}
_DATETIME: Final = struct.Struct("<iI")
_SMALLDATETIME: Final = struct.Struct("<HH")


def time_bytes(scale: int) -> int:
    """Bytes of a time of day with that many fractional digits."""
    if scale <= 2:
        return 3
    return 4 if scale <= 4 else 5


def _days(value: Any, info: TypeInfo) -> int:
    days: int = value
    if not 0 <= days <= _DAYS_MAX:
        raise out_of_range(info, value)
    return days


class DateFamily:
    """date: three bytes of days."""

    tokens = (DataType.DATEN,)

    def encode_info(self, info: TypeInfo) -> bytes:  # noqa: ARG002 -- as every family
        """Nothing: the length is always three."""
        return b""

    def decode_info(self, token: DataType, reader: Reader) -> TypeInfo:  # noqa: ARG002 -- as every family
        """Nothing: the length is always three."""
        return TypeInfo(token, 3)

    def encoder(self, info: TypeInfo) -> Encoder:
        """Length byte, days."""

        def encode(value: Any) -> bytes:
            if value is None:
                return b"\0"
            return b"\x03" + _days(value, info).to_bytes(3, "little")

        return encode

    def decoder(self, info: TypeInfo) -> Decoder:
        """Length byte (0 is NULL), days."""

        def decode(reader: Reader) -> Value:
            length = reader.u8()
            if length == 0:
                return None
            if length != info.length:
                raise wrong_length(info, length)
            return _checked_days(reader)

        return decode

    def columns(self, info: TypeInfo) -> PackPlan:
        """The length byte and the three bytes of days as one 32-bit number."""

        def joined(values: Sequence[Any]) -> tuple[Arguments, Sequence[bytes] | None]:
            if max(values) > _DAYS_MAX:
                raise out_of_range(info, max(values))
            return ([3 | v << 8 for v in values],), None

        return PackPlan("I", joined, b"\0")


def _checked_days(reader: Reader) -> int:
    days = int.from_bytes(reader.take(3), "little")
    if days > _DAYS_MAX:
        raise RemoteProtocolError(f"date {days} days after 0001-01-01")
    return days


def _checked_time(reader: Reader, size: int, unit: int) -> int:
    ticks = int.from_bytes(reader.take(size), "little") * unit
    if ticks >= TICKS_PER_DAY:
        raise RemoteProtocolError(f"time of day of {ticks} ticks")
    return ticks


class ScaledTimeFamily:
    """time, datetime2 and datetimeoffset: units of 10**-scale s, then days, then the offset."""

    tokens = (DataType.TIMEN, DataType.DATETIME2N, DataType.DATETIMEOFFSETN)

    def encode_info(self, info: TypeInfo) -> bytes:
        """The scale."""
        return bytes((info.scale,))

    def decode_info(self, token: DataType, reader: Reader) -> TypeInfo:
        """The scale."""
        scale = reader.u8()
        if scale > SCALE_MAX:
            raise RemoteProtocolError(f"{token.name} of scale {scale}")
        extra = {DataType.TIMEN: 0, DataType.DATETIME2N: 3}.get(token, 5)
        return TypeInfo(token, time_bytes(scale) + extra, scale=scale)

    def encoder(self, info: TypeInfo) -> Encoder:
        """Length byte, time of day, days, offset."""
        size = time_bytes(info.scale)
        unit = 10 ** (SCALE_MAX - info.scale)

        def encode_time(value: Any) -> bytes:
            if value is None:
                return b"\0"
            if not 0 <= value < TICKS_PER_DAY:
                raise out_of_range(info, value)
            units: int = value // unit
            return bytes((size,)) + units.to_bytes(size, "little")

        def encode_datetime(value: Any) -> bytes:
            if value is None:
                return b"\0"
            days, ticks = divmod(value, TICKS_PER_DAY)
            raw: bytes = (ticks // unit).to_bytes(size, "little")
            return bytes((size + 3,)) + raw + _days(days, info).to_bytes(3, "little")

        def encode_offset(value: Any) -> bytes:
            if value is None:
                return b"\0"
            if len(value) != _OFFSET_DIGITS:
                raise out_of_range(info, value)
            days, ticks = divmod(int(value[:_TICK_DIGITS]), TICKS_PER_DAY)
            raw: bytes = (ticks // unit).to_bytes(size, "little")
            offset = int(value[_TICK_DIGITS:]) - _OFFSET_BIAS
            return (
                bytes((size + 5,))
                + raw
                + _days(days, info).to_bytes(3, "little")
                + offset.to_bytes(2, "little", signed=True)
            )

        if info.token is DataType.TIMEN:
            return encode_time
        return encode_datetime if info.token is DataType.DATETIME2N else encode_offset

    def decoder(self, info: TypeInfo) -> Decoder:
        """Length byte (0 is NULL), time of day, days, offset."""
        unit = 10 ** (SCALE_MAX - info.scale)
        size = time_bytes(info.scale)

        def decode(reader: Reader) -> Value:
            length = reader.u8()
            if length == 0:
                return None
            if length != info.length:
                raise wrong_length(info, length)
            ticks = _checked_time(reader, size, unit)
            if info.token is DataType.TIMEN:
                return ticks
            ticks += _checked_days(reader) * TICKS_PER_DAY
            if info.token is DataType.DATETIME2N:
                return ticks
            offset = int.from_bytes(reader.take(2), "little", signed=True)
            if not -840 <= offset <= 840:
                raise RemoteProtocolError(f"datetimeoffset {offset} minutes from UTC")
            return f"{ticks:019d}{offset + _OFFSET_BIAS:04d}"

        return decode

    def columns(self, info: TypeInfo) -> PackPlan:
        """datetime2 of scale 5 to 7 as one 64-bit number; the rest as whole values."""
        size = time_bytes(info.scale)
        unit = 10 ** (SCALE_MAX - info.scale)
        if info.token is DataType.DATETIME2N and size == 5:

            def joined(values: Sequence[Any]) -> tuple[Arguments, Sequence[bytes] | None]:
                low, high = min(values), max(values)
                if low < 0 or high >= _TICKS_END:
                    raise out_of_range(info, high)
                day = low // TICKS_PER_DAY
                if high // TICKS_PER_DAY > day:
                    parts = [divmod(v, TICKS_PER_DAY) for v in values]
                    return ([ticks // unit | days << 40 for days, ticks in parts],), None
                # Times of a change table are mostly of one day: no division is left to do.
                midnight, days = day * TICKS_PER_DAY, day << 40
                if unit == 1:
                    shift = days - midnight
                    return ([v + shift for v in values],), None
                return ([(v - midnight) // unit | days for v in values],), None

            return PackPlan("Q", joined, b"\0", prefix=b"\x08")
        return PackPlan(f"{info.length + 1}s", whole_values(self.encoder(info)), b"\0")


class DatetimeFamily:
    """datetime (days since 1900, 1/300 s) and smalldatetime (days since 1900, minutes)."""

    tokens = (DataType.DATETIMEN, *_DATETIME_BYTES)

    def encode_info(self, info: TypeInfo) -> bytes:
        """The length, which the fixed forms leave out."""
        return b"" if info.token in _DATETIME_BYTES else bytes((info.length,))

    def decode_info(self, token: DataType, reader: Reader) -> TypeInfo:
        """The length, which the fixed forms leave out."""
        length = _DATETIME_BYTES.get(token) or reader.u8()
        if length not in (4, 8):
            raise RemoteProtocolError(f"{token.name} of {length} bytes")
        return TypeInfo(token, length)

    def encoder(self, info: TypeInfo) -> Encoder:
        """Length byte, days, time of day."""
        fixed = info.token in _DATETIME_BYTES
        prefix = b"" if fixed else bytes((info.length,))

        def encode(value: Any) -> bytes:
            if value is None:
                if fixed:
                    raise out_of_range(info, value)
                return b"\0"
            days, ticks = divmod(value, TICKS_PER_DAY)
            try:
                if info.length == 4:
                    packed = _SMALLDATETIME.pack(days - _DAYS_TO_1900, ticks // _TICKS_PER_MINUTE)
                else:
                    carry, units = divmod((ticks * 3 + 50_000) // 100_000, _UNITS_PER_DAY)
                    packed = _DATETIME.pack(days + carry - _DAYS_TO_1900, units)
            except struct.error as error:
                raise out_of_range(info, value) from error
            return prefix + packed

        return encode

    def decoder(self, info: TypeInfo) -> Decoder:
        """Length byte (0 is NULL), days, time of day."""
        fixed = info.token in _DATETIME_BYTES

        def decode(reader: Reader) -> Value:
            length = info.length if fixed else reader.u8()
            if length == 0:
                return None
            if length != info.length:
                raise wrong_length(info, length)
            if length == 4:
                days, minutes = _SMALLDATETIME.unpack(reader.take(4))
                ticks = minutes * _TICKS_PER_MINUTE
            else:
                days, units = _DATETIME.unpack(reader.take(8))
                ticks = (units * 200_000 + 3) // 6
            days += _DAYS_TO_1900
            if ticks >= TICKS_PER_DAY or not 0 <= days <= _DAYS_MAX:
                raise RemoteProtocolError(f"datetime of {days} days and {ticks} ticks")
            return int(days * TICKS_PER_DAY + ticks)

        return decode

    def columns(self, info: TypeInfo) -> PackPlan:
        """Whole values: datetime is too rare in wide reads to be split."""
        size = info.length + (info.token not in _DATETIME_BYTES)
        return PackPlan(f"{size}s", whole_values(self.encoder(info)), b"\0")
