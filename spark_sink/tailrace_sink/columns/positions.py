"""Positions of changes as 25 bytes, and the ledger's hashes of them."""

from __future__ import annotations

import zlib
from typing import Final

import numpy as np
import pyarrow as pa

from tailrace_sink.columns.cursor import Numbers, Undecodable

BYTES: Final = 25
"""Commit LSN (10), command id (4), change LSN (10), operation (1)."""
LSN_BYTES: Final = 10
_TEXT: Final = 22
_COLONS_AT: Final = (8, 17)
_DIGITS_AT: Final = np.array([n for n in range(_TEXT) if n not in _COLONS_AT])


def _crc_parts() -> tuple[int, Numbers]:
    """Split crc32 by the place of a byte: it is linear, so its parts are combined by XOR."""
    zero = zlib.crc32(bytes(BYTES))
    parts = np.zeros((BYTES, 256), np.uint32)
    for place in range(BYTES):
        for byte in range(256):
            row = bytearray(BYTES)
            row[place] = byte
            parts[place, byte] = zlib.crc32(row) ^ zero
    return zero, parts


_CRC_OF_ZEROS, _CRC_PARTS = _crc_parts()


def lsn_bytes(texts: pa.Array) -> Numbers:
    """Read LSNs from their texts (``00000001:00000002:0003``): a row of 10 bytes for each.

    Raises:
        Undecodable: a text is no LSN.
    """
    if not len(texts):
        return np.zeros((0, LSN_BYTES), np.uint8)
    offsets = np.frombuffer(texts.buffers()[1], np.int32)[: len(texts) + 1]
    if (np.diff(offsets) != _TEXT).any():
        raise Undecodable("an LSN has not 22 characters")
    characters = np.frombuffer(texts.buffers()[2], np.uint8)[: _TEXT * len(texts)]
    characters = characters.reshape(-1, _TEXT)
    digits = characters[:, _DIGITS_AT]
    # Unsigned numbers wrap: what is below the first digit is greater than the last one.
    is_digit = (digits - ord("0") < 10) | (digits - ord("a") < 6)
    if not is_digit.all() or any((characters[:, at] != ord(":")).any() for at in _COLONS_AT):
        raise Undecodable("a text is no LSN")
    values = (digits & 0x0F) + (digits >> 6) * 9
    packed: Numbers = (values[:, 0::2] << 4) | values[:, 1::2]
    return packed


def hash_sum(positions: Numbers) -> int:
    """Add the crc32 of each position."""
    return int(hashes(positions).sum(dtype=np.uint64))


def hashes(positions: Numbers) -> Numbers:
    """Return the crc32 of each position."""
    if not len(positions):
        return np.zeros(0, np.uint32)
    constant = np.uint32(_CRC_OF_ZEROS)
    crc = np.zeros(len(positions), np.uint32)
    for place in range(BYTES):
        column = positions[:, place]
        if (column == column[0]).all():
            constant ^= _CRC_PARTS[place, column[0]]
        else:
            crc ^= _CRC_PARTS[place].take(column)
    return crc ^ constant


def within(positions: Numbers, after: bytes | None, up_to: bytes | None) -> Numbers:
    """Compare the commit LSNs of positions: whether each is in (after, up_to]."""
    chosen = np.ones(len(positions), bool)
    if after is not None:
        chosen &= _is_greater(positions, after)
    if up_to is not None:
        chosen &= ~_is_greater(positions, up_to)
    return chosen


def _is_greater(positions: Numbers, lsn: bytes) -> Numbers:
    high = np.ascontiguousarray(positions[:, :8]).view(">u8").reshape(-1)
    low = np.ascontiguousarray(positions[:, 8:LSN_BYTES]).view(">u2").reshape(-1)
    of_high, of_low = int.from_bytes(lsn[:8], "big"), int.from_bytes(lsn[8:], "big")
    greater: Numbers = (high > of_high) | ((high == of_high) & (low > of_low))
    return greater
