"""Kernels of texts and of binary values: their length precedes them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import numpy as np

from tailrace_publisher.encode.blocks.byte_runs import (
    Bytes,
    Flags,
    Longs,
    Pieces,
    firsts,
    fixed,
    prefixed,
)
from tailrace_publisher.encode.blocks.cells import Cells, Kernel
from tailrace_publisher.encode.columns.column_forms import Cell, Declined, NotAscii
from tailrace_publisher.encode.columns.varint import encode_long
from tailrace_schemas.events.transforms import HASH_CHARACTERS

_UNIT: Final = 2


_GUID_ORDER: Final = (3, 2, 1, 0, 5, 4, 7, 6, 8, 9, 10, 11, 12, 13, 14, 15)


_HEX: Final = np.frombuffer("".join(f"{value:02x}" for value in range(256)).encode(), "<u2").copy()


def hexadecimal(data: Bytes) -> Bytes:
    """Two digits of every byte."""
    return np.ascontiguousarray(_HEX[data]).view(np.uint8)


def guids(_: Cell, prefix: bytes) -> Kernel:
    """Encode GUIDs as texts with small letters."""
    head = prefix + encode_long(36)

    def encode(cells: Cells) -> tuple[Any, ...]:
        digits = hexadecimal(np.take(cells.data, _GUID_ORDER, axis=1))
        text = np.full((len(digits), 36), ord("-"), np.uint8)
        for source, target, count in ((0, 0, 8), (8, 9, 4), (12, 14, 4), (16, 19, 4), (20, 24, 12)):
            text[:, target : target + count] = digits[:, source : source + count]
        return fixed(text, cells.nulls, head)

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


def binaries(cell: Cell, prefix: bytes) -> Kernel:
    """Encode binary values."""

    def encode(cells: Cells) -> tuple[Any, ...]:
        lengths, nulls = _present_lengths(cells, cell.width)
        width = int(lengths.max(initial=0))
        data = Pieces.cut(cells.data[:, :width], lengths).data
        return prefixed(data, lengths, nulls, prefix)

    return encode


def texts(cell: Cell, prefix: bytes) -> Kernel:
    """Encode UTF-16 as UTF-8."""

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


def ascii_texts(cell: Cell, prefix: bytes) -> Kernel:
    """Encode bytes of any code page that are ASCII."""

    def encode(cells: Cells) -> tuple[Any, ...]:
        lengths, nulls = _present_lengths(cells, cell.width)
        width = int(lengths.max(initial=0))
        data = Pieces.cut(cells.data[:, :width], lengths).data
        # A zero would be half of a code unit, from a driver that converts all the same.
        if len(data) and not (0 < int(data.min()) <= int(data.max()) < 0x80):
            raise NotAscii
        return prefixed(data, lengths, nulls, prefix)

    return encode


def hashes(hash_of: Callable[[Any], str | None], prefix: bytes) -> Kernel:
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
        return fixed(text.reshape(-1, HASH_CHARACTERS), cells.nulls, head)

    return encode
