"""Partially length-prefixed values: how (max) types and xml travel. MS-TDS 2.2.5.2.3.

A 64-bit total (or unknown), chunks of a 32-bit length and bytes, and an empty chunk. NULL is a
total of 0xFFFFFFFFFFFFFFFF.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Any, Final

from tailrace_emulator.wire.errors import RemoteProtocolError
from tailrace_emulator.wire.reader import Reader

NULL: Final = b"\xff" * 8
TERMINATOR: Final = b"\0\0\0\0"
FORMAT: Final = "QI"
_NULL_TOTAL: Final = (1 << 64) - 1
_UNKNOWN_TOTAL: Final = (1 << 64) - 2
_HEAD: Final = struct.Struct("<" + FORMAT)


def encode(raw: bytes) -> bytes:
    """One value in one chunk."""
    if not raw:
        return bytes(12)
    return _HEAD.pack(len(raw), len(raw)) + raw + TERMINATOR


def decode(reader: Reader) -> bytes | None:
    """One value, however many chunks it has."""
    data, start = reader.data, reader.position
    if start + 12 <= len(data):
        total, size = _HEAD.unpack_from(data, start)
        end = start + 12 + size
        if size and total in (size, _UNKNOWN_TOTAL) and data.startswith(TERMINATOR, end):
            # in one chunk: nearly all
            reader.position = end + 4
            return data[start + 12 : end]
    total = reader.u64()
    if total == _NULL_TOTAL:
        return None
    chunks = []
    while size := reader.u32():
        chunks.append(reader.take(size))
    raw = b"".join(chunks)
    if total not in (_UNKNOWN_TOTAL, len(raw)):
        raise RemoteProtocolError(f"value announced with {total} bytes has {len(raw)}")
    return raw


def columns(
    raws: Sequence[bytes],
) -> tuple[tuple[Sequence[int], Sequence[int]], Sequence[Any]]:
    """Totals, chunk lengths and bodies; an empty value's chunk length is its terminator."""
    lengths = [len(raw) for raw in raws]
    return (lengths, lengths), [raw + TERMINATOR if raw else b"" for raw in raws]
