"""Kernels of numbers and of moments: dates, times, timestamps."""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from tailrace_publisher.encode.blocks.byte_runs import Bytes, Longs, Pieces, fixed, varints
from tailrace_publisher.encode.blocks.cells import Cells, Kernel
from tailrace_publisher.encode.columns.column_forms import Cell, Declined
from tailrace_publisher.encode.columns.varint import encode_long

_DAY_MICROSECONDS: Final = 86_400_000_000


_NUMERIC_BYTES: Final = 17  # a sign and a magnitude of 16 bytes, most significant byte first


_ZERO: Final = ord("0")


def bits(_: Cell, prefix: bytes) -> Kernel:
    """Encode booleans, which are one byte in both forms."""
    return lambda cells: fixed(cells.data, cells.nulls, prefix)


def floats(_: Cell, prefix: bytes) -> Kernel:
    """Encode numbers of IEEE 754, which Avro writes as the driver does."""
    return lambda cells: fixed(cells.data, cells.nulls, prefix)


def longs(_: Cell, prefix: bytes) -> Kernel:
    """Encode integers of eight bytes."""

    def encode(cells: Cells) -> tuple[Any, ...]:
        return (varints(cells.data.view("<i8")[:, 0], cells.nulls, prefix).array(),)

    return encode


def _days(years: Longs, months: Longs, days: Longs) -> Longs:
    """Days since 1970-01-01 of dates of the Gregorian calendar."""
    first = ((years - 1970) * 12 + (months - 1)).astype("M8[M]").astype("M8[D]")
    return first.view(np.int64) + (days - 1)


def dates(_: Cell, prefix: bytes) -> Kernel:
    """Encode dates as days since 1970."""

    def encode(cells: Cells) -> tuple[Any, ...]:
        parts = cells.data.view("<i2").astype(np.int64)
        days = _days(parts[:, 0], parts[:, 1], parts[:, 2])
        return (varints(days, cells.nulls, prefix).array(),)

    return encode


def moments_of(stamps: Bytes) -> Longs:
    """Microseconds since 1970 of SQL_TIMESTAMP_STRUCTs, rows by bytes."""
    parts = stamps[:, :12].view("<i2").astype(np.int64)
    days = _days(parts[:, 0], parts[:, 1], parts[:, 2])
    seconds = (parts[:, 3] * 60 + parts[:, 4]) * 60 + parts[:, 5]
    micros = stamps.view("<u4")[:, 3] // np.uint32(1000)
    found: Longs = days * _DAY_MICROSECONDS + seconds * 1_000_000 + micros.astype(np.int64)
    return found


def timestamps(_: Cell, prefix: bytes) -> Kernel:
    """Encode timestamps as microseconds since 1970; a digit of 100 ns is cut."""

    def encode(cells: Cells) -> tuple[Any, ...]:
        return (varints(moments_of(cells.data), cells.nulls, prefix).array(),)

    return encode


def times(_: Cell, prefix: bytes) -> Kernel:
    """Encode times as microseconds since midnight; a digit of 100 ns is cut."""

    def encode(cells: Cells) -> tuple[Any, ...]:
        parts = cells.data[:, :6].view("<u2").astype(np.int64)
        seconds = (parts[:, 0] * 60 + parts[:, 1]) * 60 + parts[:, 2]
        micros = cells.data.view("<u4")[:, 2] // np.uint32(1000)
        clock = seconds * 1_000_000 + micros.astype(np.int64)
        return (varints(clock, cells.nulls, prefix).array(),)

    return encode


def _digits(numbers: Longs, count: int, out: Bytes) -> None:
    """Decimal digits of numbers, most significant first."""
    rest = numbers
    for place in range(count - 1, -1, -1):
        higher = rest // 10
        out[:, place] = rest - higher * 10 + _ZERO
        rest = higher


def timestamp_offsets(_: Cell, prefix: bytes) -> Kernel:
    """Encode timestamps with an offset as texts of RFC 3339 with seven digits."""
    template = np.frombuffer(b"0000-00-00T00:00:00.0000000+00:00", np.uint8)
    head = prefix + encode_long(len(template))

    def encode(cells: Cells) -> tuple[Any, ...]:
        parts = cells.data.view("<i2").astype(np.int64)
        text = np.tile(template, (len(parts), 1))
        for field, place, count in ((0, 0, 4), (1, 5, 2), (2, 8, 2), (3, 11, 2), (4, 14, 2)):
            _digits(parts[:, field], count, text[:, place : place + count])
        _digits(parts[:, 5], 2, text[:, 17:19])
        hundreds = cells.data.view("<u4")[:, 3].astype(np.int64) // 100
        _digits(hundreds, 7, text[:, 20:27])
        hours, minutes = parts[:, 8], parts[:, 9]
        text[:, 27] = np.where((hours < 0) | (minutes < 0), ord("-"), ord("+"))
        _digits(np.abs(hours), 2, text[:, 28:30])
        _digits(np.abs(minutes), 2, text[:, 31:33])
        return fixed(text, cells.nulls, head)

    return encode


def numerics(cell: Cell, prefix: bytes) -> Kernel:
    """Encode decimals as the fewest bytes of their two's complement, as fastavro does."""
    limit = 10**cell.precision
    most_high, most_low = np.uint64((limit - 1) >> 64), np.uint64((limit - 1) & (2**64 - 1))

    def encode(cells: Cells) -> tuple[Any, ...]:
        nulls = cells.nulls
        halves = np.ascontiguousarray(cells.data[:, 3:19]).view("<u8")
        negative = cells.data[:, 2] == 0
        if nulls is not None:
            halves[nulls] = 0
            negative &= ~nulls
        low, high = halves[:, 0], halves[:, 1]
        if ((high > most_high) | ((high == most_high) & (low > most_low))).any():
            raise Declined("more digits than the type has")
        # fastavro's length: of the magnitude's bits and a sign, in whole bytes.
        magnitude = halves.view(np.uint8).reshape(-1, 16)
        used = 16 - (magnitude[:, ::-1] != 0).argmax(axis=1)
        used[(low | high) == 0] = 0
        top = magnitude[np.arange(len(used)), np.maximum(used - 1, 0)]
        count = np.where(used == 0, 1, used + (top >= 0x80))
        # The two's complement, most significant byte first, its last bytes at the end of the cell.
        signed_low = np.where(negative, ~low + np.uint64(1), low)
        carry = negative & (low == 0)
        signed_high = np.where(negative, ~high + carry.astype(np.uint64), high)
        width = int(count.max(initial=1))
        swapped = np.empty((len(low), _NUMERIC_BYTES), np.uint8)
        swapped[:, 0] = np.where(negative & ((low | high) != 0), 0xFF, 0)
        swapped[:, 1:9] = signed_high.astype(">u8").view(np.uint8).reshape(-1, 8)
        swapped[:, 9:] = signed_low.astype(">u8").view(np.uint8).reshape(-1, 8)
        begin = len(prefix)
        places = np.arange(width)
        source = np.minimum(_NUMERIC_BYTES - count[:, None] + places, _NUMERIC_BYTES - 1)
        whole = np.empty((len(low), begin + 1 + width), np.uint8)
        if prefix:
            whole[:, 0] = prefix[0]
        whole[:, begin] = count << 1
        whole[:, begin + 1 :] = np.take_along_axis(swapped, source, axis=1)
        lengths = begin + 1 + count
        if nulls is not None:
            whole[nulls, 0] = 0
            lengths[nulls] = 1
        return (Pieces.cut(whole, lengths).array(),)

    return encode
