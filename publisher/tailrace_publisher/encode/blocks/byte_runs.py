"""Byte strings of many rows in one run, and the numbers that Avro writes with varying length.

Arrow's own ``pa.array``, ``pa.scalar`` and ``to_numpy`` import pandas if it is installed, which
takes 46 MB. So arrays are built from buffers here, and scalars are read from arrays.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final, Self

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from tailrace_publisher.encode.columns.column_forms import Declined

Bytes = NDArray[np.uint8]
Longs = NDArray[np.int64]
Flags = NDArray[np.bool_]

_SEVEN_BITS: Final = np.uint64(0x7F)
_SEVEN: Final = np.uint64(7)
_SIGN: Final = np.int64(63)
_WIDE: Final = 200
"""Items from which a Python object for each row costs less than a flag for each item."""


@dataclass(frozen=True, slots=True)
class Pieces:
    """One byte string of every row.

    Attributes:
        data: all of them, one after the other.
        ends: where each one ends.
    """

    data: Bytes
    ends: Longs

    def __len__(self) -> int:
        return len(self.ends)

    @classmethod
    def of_lengths(cls, data: Bytes, lengths: Longs) -> Self:
        """Create from the length of each."""
        return cls(data, np.cumsum(lengths, dtype=np.int64))

    @classmethod
    def cut(cls, cells: Bytes, lengths: Longs) -> Self:
        """Create from the first bytes of each row of a matrix.

        Args:
            cells: rows by bytes; bytes after a row's length are left out.
            lengths: number of bytes of each row.
        """
        return cls.of_lengths(firsts(cells, lengths), lengths)

    def array(self) -> pa.BinaryArray:
        """Return them as an Arrow array.

        Raises:
            Declined: they have more than two gigabytes.
        """
        if len(self.data) > np.iinfo(np.int32).max:
            raise Declined("more than two gigabytes")
        offsets = np.zeros(len(self.ends) + 1, np.int32)
        offsets[1:] = self.ends
        return pa.Array.from_buffers(
            pa.binary(), len(self.ends), [None, pa.py_buffer(offsets), pa.py_buffer(self.data)]
        )


def firsts(cells: NDArray[Any], lengths: Longs) -> NDArray[Any]:
    """Return the first items of each row of a matrix, row after row."""
    rows, width = cells.shape
    if rows and int(lengths.min()) == width:
        return np.ascontiguousarray(cells).reshape(-1)
    if width < _WIDE:
        kept: NDArray[Any] = cells[np.arange(width) < lengths[:, None]]
        return kept
    raw, row_bytes = cells.tobytes(), width * cells.itemsize
    starts = range(0, rows * row_bytes, row_bytes)
    sizes = (lengths * cells.itemsize).tolist()
    pieces = [raw[start : start + size] for start, size in zip(starts, sizes, strict=True)]
    return np.frombuffer(b"".join(pieces), cells.dtype)


def binary(values: Sequence[bytes]) -> pa.BinaryArray:
    """Return an Arrow array of a few byte strings."""
    lengths = np.fromiter(map(len, values), np.int64, len(values))
    return Pieces.of_lengths(np.frombuffer(b"".join(values), np.uint8), lengths).array()


def scalar(value: bytes) -> pa.Scalar:
    """Return a byte string that is the same in every row."""
    return binary([value])[0]


_NOTHING_BETWEEN: Final = scalar(b"")


def places(indexes: Longs) -> pa.Int64Array:
    """Return indexes as Arrow expects them, in the same memory."""
    buffer = pa.py_buffer(np.ascontiguousarray(indexes, np.int64))
    return pa.Array.from_buffers(pa.int64(), len(indexes), [None, buffer])


def flags_of(array: pa.BooleanArray) -> Flags:
    """Return the bits of an array without nulls, a byte each."""
    bits = np.frombuffer(array.buffers()[1], np.uint8)
    end = array.offset + len(array)
    return np.unpackbits(bits, count=end, bitorder="little")[array.offset :].view(np.bool_)


def as_list(array: Any) -> list[bytes]:
    """Return one ``bytes`` for each row."""
    values: list[bytes] = array.to_pylist()
    return values


def as_bytes(rows: Bytes) -> list[bytes]:
    """Return one ``bytes`` for each row of a matrix."""
    values: list[bytes] = rows.view(f"V{rows.shape[1]}")[:, 0].tolist()
    return values


def zigzag(values: Longs) -> NDArray[np.uint64]:
    """Return Avro's form of signed integers: small ones of either sign are small."""
    return ((values << np.int64(1)) ^ (values >> _SIGN)).view(np.uint64)


def varints(values: Longs, nulls: Flags | None, prefix: bytes) -> Pieces:
    """Return longs in Avro's form, each with a prefix; NULL is the byte 0 alone.

    Args:
        nulls: which rows are NULL; None if no row is.
        prefix: at most one byte: the branch of an optional value.
    """
    rest = zigzag(values)
    if nulls is not None:
        rest[nulls] = 0
    begin = len(prefix)
    digits = max(1, -(-int(rest.max(initial=0)).bit_length() // 7))
    cells = np.empty((len(values), begin + digits), np.uint8)
    if prefix:
        cells[:, 0] = prefix[0]
    lengths = np.full(len(values), begin + 1, np.int64)
    for digit in range(begin, begin + digits):
        low = (rest & _SEVEN_BITS).astype(np.uint8)
        rest >>= _SEVEN
        more = rest != 0
        cells[:, digit] = low | (more.view(np.uint8) << 7)
        lengths += more
    if nulls is not None:
        cells[nulls, 0] = 0
        lengths[nulls] = 1
    return Pieces.cut(cells, lengths)


def fixed(cells: Bytes, nulls: Flags | None, prefix: bytes) -> tuple[Any, ...]:
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


def prefixed(data: Bytes, lengths: Longs, nulls: Flags | None, prefix: bytes) -> tuple[Any, ...]:
    """Return byte strings of varying length, each after its length, ready to be joined.

    Args:
        data: the bytes of all rows that are not NULL.
        lengths: of each row, 0 for NULL.
        nulls: which rows are NULL; None if no row is.
        prefix: branch of an optional value.
    """
    return (
        varints(lengths, nulls, prefix).array(),
        Pieces.of_lengths(data, lengths).array(),
    )


def joined(parts: Sequence[Any]) -> Any:
    """Join the parts of every row, one after the other, in memory of their own.

    Args:
        parts: arrays, or scalars that are the same in every row.
    """
    return pc.binary_join_element_wise(*parts, _NOTHING_BETWEEN)
