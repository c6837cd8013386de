"""One kernel per form of a column: cells in, the column's Avro bytes of every row out.

What comes out may still be the memory of the cells: it is joined before they are written again.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from tailrace_publisher.encode.blocks.byte_runs import (
    Bytes,
    Flags,
    Longs,
    Pieces,
    firsts,
    prefixed,
    varints,
)
from tailrace_publisher.encode.columns.column_encoders import hash_of_column
from tailrace_publisher.encode.columns.column_forms import Cell, Declined, Form, NotAscii
from tailrace_publisher.encode.columns.value_hash import ValueHash
from tailrace_publisher.encode.columns.varint import PRESENT, encode_long
from tailrace_schemas.events.envelope import SchemaColumn
from tailrace_schemas.events.transforms import HASH_CHARACTERS, TransformKind

NULL_LENGTH: Final = -1
"""SQL_NULL_DATA: the length of a value that is NULL."""

_UNIT: Final = 2
_DAY_MICROSECONDS: Final = 86_400_000_000
_GUID_ORDER: Final = (3, 2, 1, 0, 5, 4, 7, 6, 8, 9, 10, 11, 12, 13, 14, 15)
_HEX: Final = np.frombuffer("".join(f"{value:02x}" for value in range(256)).encode(), "<u2").copy()
_NUMERIC_BYTES: Final = 17  # a sign and a magnitude of 16 bytes, most significant byte first
_ZERO: Final = ord("0")


@dataclass(frozen=True, slots=True)
class Cells:
    """A column of a block.

    Attributes:
        data: rows by bytes of a cell.
        lengths: bytes of each value, ``NULL_LENGTH`` for NULL.
    """

    data: Bytes
    lengths: Longs

    @property
    def nulls(self) -> Flags | None:
        """Which rows are NULL; None where none is."""
        nulls = self.lengths == NULL_LENGTH
        return nulls if nulls.any() else None


Kernel = Callable[[Cells], tuple[Any, ...]]
"""What is to be joined, row by row, for the column's Avro bytes."""


def kernel_of(column: SchemaColumn, cell: Cell, hashes: ValueHash | None = None) -> Kernel:
    """The kernel of a column's cells.

    It raises Declined for what does not fit: the reference then says what it is; NotAscii where
    other cells would do.

    Args:
        column: of the version.
        cell: how its values are taken.
        hashes: makes the hashes of a hashed column.

    Raises:
        ValueError: see ``column_encoder``.
    """
    prefix = b"" if column.is_required else PRESENT
    if column.transform is not None and column.transform.kind is TransformKind.HASH:
        return _hashes(hash_of_column(column.transform, hashes), prefix)
    make = _KERNELS[cell.form]
    encode = make(cell, prefix)
    if prefix:
        return encode

    def refuse_null(cells: Cells) -> tuple[Any, ...]:
        if cells.nulls is not None:
            raise Declined("NULL in a key column")
        return encode(cells)

    return refuse_null


def _fixed(cells: Bytes, nulls: Flags | None, prefix: bytes) -> tuple[Any, ...]:
    """Values of one width: a prefix and the cell, or the byte 0."""
    rows, width = cells.shape
    whole = np.empty((rows, len(prefix) + width), np.uint8)
    if prefix:
        whole[:, : len(prefix)] = np.frombuffer(prefix, np.uint8)
    whole[:, len(prefix) :] = cells
    lengths = np.full(rows, len(prefix) + width, np.int64)
    if nulls is not None:
        whole[nulls, 0] = 0
        lengths[nulls] = 1
    return (Pieces.cut(whole, lengths).array(),)


def _bits(_: Cell, prefix: bytes) -> Kernel:
    return lambda cells: _fixed(cells.data, cells.nulls, prefix)


def _floats(_: Cell, prefix: bytes) -> Kernel:
    return lambda cells: _fixed(cells.data, cells.nulls, prefix)


def _longs(_: Cell, prefix: bytes) -> Kernel:
    def encode(cells: Cells) -> tuple[Any, ...]:
        return (varints(cells.data.view("<i8")[:, 0], cells.nulls, prefix).array(),)

    return encode


def _days(years: Longs, months: Longs, days: Longs) -> Longs:
    """Days since 1970-01-01 of dates of the Gregorian calendar."""
    first = ((years - 1970) * 12 + (months - 1)).astype("M8[M]").astype("M8[D]")
    return first.view(np.int64) + (days - 1)


def _dates(_: Cell, prefix: bytes) -> Kernel:
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


def _timestamps(_: Cell, prefix: bytes) -> Kernel:
    def encode(cells: Cells) -> tuple[Any, ...]:
        return (varints(moments_of(cells.data), cells.nulls, prefix).array(),)

    return encode


def _times(_: Cell, prefix: bytes) -> Kernel:
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


def _timestamp_offsets(_: Cell, prefix: bytes) -> Kernel:
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
        return _fixed(text, cells.nulls, head)

    return encode


def hexadecimal(data: Bytes) -> Bytes:
    """Two digits of every byte."""
    return np.ascontiguousarray(_HEX[data]).view(np.uint8)


def _guids(_: Cell, prefix: bytes) -> Kernel:
    head = prefix + encode_long(36)

    def encode(cells: Cells) -> tuple[Any, ...]:
        digits = hexadecimal(np.take(cells.data, _GUID_ORDER, axis=1))
        text = np.full((len(digits), 36), ord("-"), np.uint8)
        for source, target, count in ((0, 0, 8), (8, 9, 4), (12, 14, 4), (16, 19, 4), (20, 24, 12)):
            text[:, target : target + count] = digits[:, source : source + count]
        return _fixed(text, cells.nulls, head)

    return encode


def _numerics(cell: Cell, prefix: bytes) -> Kernel:
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


def _present_lengths(cells: Cells, limit: int) -> tuple[Longs, Flags | None]:
    """Length of every value, 0 for NULL.

    Raises:
        Declined: a value did not fit its cell.
    """
    nulls = cells.nulls
    lengths = cells.lengths if nulls is None else np.where(nulls, 0, cells.lengths)
    if len(lengths) and (int(lengths.max()) > limit or int(lengths.min()) < 0):
        raise Declined("a value is longer than its declaration")
    return lengths, nulls


def _binaries(cell: Cell, prefix: bytes) -> Kernel:
    def encode(cells: Cells) -> tuple[Any, ...]:
        lengths, nulls = _present_lengths(cells, cell.width)
        width = int(lengths.max(initial=0))
        data = Pieces.cut(cells.data[:, :width], lengths).data
        return prefixed(data, lengths, nulls, prefix)

    return encode


def _texts(cell: Cell, prefix: bytes) -> Kernel:
    def encode(cells: Cells) -> tuple[Any, ...]:
        lengths, nulls = _present_lengths(cells, cell.width - _UNIT)
        counts = lengths // _UNIT
        width = int(counts.max(initial=0))
        units = cells.data.view("<u2")[:, :width]
        units = firsts(units, counts)
        if not len(units) or int(units.max()) < 0x80:
            return prefixed(units.astype(np.uint8), counts, nulls, prefix)
        try:
            text = units.tobytes().decode("utf-16-le").encode()
        except UnicodeDecodeError as error:
            raise Declined("half a surrogate pair") from error
        more = (units >= 0x80).view(np.uint8) + (units >= 0x800).view(np.uint8)
        halves = (units & 0xF800) == 0xD800
        present = counts > 0
        starts = (np.cumsum(counts) - counts)[present]
        if halves.any():
            # A pair is four bytes; one that is not within a row is none.
            more[halves] = 1
            if ((units[starts] & 0xFC00) == 0xDC00).any():
                raise Declined("half a surrogate pair")
        sizes = counts.copy()
        sizes[present] += np.add.reduceat(more, starts, dtype=np.int64)
        return prefixed(np.frombuffer(text, np.uint8), sizes, nulls, prefix)

    return encode


def _ascii_texts(cell: Cell, prefix: bytes) -> Kernel:
    def encode(cells: Cells) -> tuple[Any, ...]:
        lengths, nulls = _present_lengths(cells, cell.width)
        width = int(lengths.max(initial=0))
        data = Pieces.cut(cells.data[:, :width], lengths).data
        # A zero would be half of a code unit, from a driver that converts all the same.
        if len(data) and not (0 < int(data.min()) <= int(data.max()) < 0x80):
            raise NotAscii
        return prefixed(data, lengths, nulls, prefix)

    return encode


def _hashes(hash_of: Callable[[Any], str | None], prefix: bytes) -> Kernel:
    """Hashes of texts, one by one: the digest costs more than the loop."""
    head = prefix + encode_long(HASH_CHARACTERS)
    none = "0" * HASH_CHARACTERS

    def encode(cells: Cells) -> tuple[Any, ...]:
        digests = [
            none
            if length < 0
            else hash_of(data[:length].tobytes().decode("utf-16-le", "surrogatepass"))
            for data, length in zip(cells.data, cells.lengths.tolist(), strict=True)
        ]
        text = np.frombuffer("".join(map(str, digests)).encode(), np.uint8)
        return _fixed(text.reshape(-1, HASH_CHARACTERS), cells.nulls, head)

    return encode


_KERNELS: Final[dict[Form, Callable[[Cell, bytes], Kernel]]] = {
    Form.BIT: _bits,
    Form.LONG: _longs,
    Form.SINGLE: _floats,
    Form.DOUBLE: _floats,
    Form.NUMERIC: _numerics,
    Form.DATE: _dates,
    Form.TIMESTAMP: _timestamps,
    Form.TIME: _times,
    Form.TIMESTAMP_OFFSET: _timestamp_offsets,
    Form.GUID: _guids,
    Form.TEXT: _texts,
    Form.ASCII: _ascii_texts,
    Form.BYTES: _binaries,
}
