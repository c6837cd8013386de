"""The partition of a key (pure): of a given number of partitions, a key always has the same."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from itertools import repeat
from operator import itemgetter
from struct import unpack_from
from typing import Final

from tailrace_publisher.encode.encoded_events import EncodedRows
from tailrace_publisher.options.kafka import Partitioner
from tailrace_schemas.events.framing import FRAME_BYTES

_SEED: Final = 0x9747B28C
_MULTIPLIER: Final = 0x5BD1E995
_WORD: Final = 0xFFFFFFFF
_POSITIVE: Final = 0x7FFFFFFF


def murmur2(data: bytes) -> int:
    """Return Murmur2 as Kafka's Java client computes it, as an unsigned number of 32 bits.

    https://github.com/apache/kafka, ``org.apache.kafka.common.utils.Utils.murmur2``. Our tests
    compare with the values of its test.
    """
    length = len(data)
    state = _SEED ^ length
    words = length >> 2
    for word in unpack_from(f"<{words}I", data):
        mixed = word * _MULTIPLIER & _WORD
        mixed = (mixed ^ mixed >> 24) * _MULTIPLIER & _WORD
        state = (state * _MULTIPLIER & _WORD) ^ mixed
    rest = data[words << 2 :]
    if rest:
        state = (state ^ int.from_bytes(rest, "little")) * _MULTIPLIER & _WORD
    state = (state ^ state >> 13) * _MULTIPLIER & _WORD
    return state ^ state >> 15


_payload: Final = itemgetter(slice(FRAME_BYTES, None))


def _by_crc32(keys: Iterable[bytes]) -> Iterable[int]:
    """Hash the keys without their frame, so that another schema id does not move them."""
    return map(zlib.crc32, map(_payload, keys))


def _by_murmur2(keys: Iterable[bytes]) -> Iterable[int]:
    """Hash all bytes of the keys, as the default partitioner of Java's producer does."""
    return (murmur2(key) & _POSITIVE for key in keys)


_HASHES: Final[dict[Partitioner, Callable[[Iterable[bytes]], Iterable[int]]]] = {
    Partitioner.CRC32: _by_crc32,
    Partitioner.MURMUR2: _by_murmur2,
}


def choose_partitions(
    keys: Sequence[bytes | None], count: int, partitioner: Partitioner = Partitioner.CRC32
) -> list[int]:
    """Return the partition of each framed key; events without a key all go to the first one.

    Args:
        keys: of one table, so either all events have one or none has.
        count: partitions of the topic.
    """
    present = [key for key in keys if key is not None]
    if count == 1 or not present:
        return list(repeat(0, len(keys)))
    hashes = _HASHES[partitioner](present)
    if len(present) == len(keys):
        return [found % count for found in hashes]
    coming = iter(hashes)
    return [0 if key is None else next(coming) % count for key in keys]


def partition_of(key: bytes | None, count: int, partitioner: Partitioner) -> int:
    """Return the partition of a key that has no frame; without a key the first one."""
    if key is None:
        return 0
    found = zlib.crc32(key) if partitioner is Partitioner.CRC32 else murmur2(key) & _POSITIVE
    return found % count


def as_written(
    encoded: EncodedRows, count: int, partitioner: Partitioner
) -> tuple[EncodedRows, Sequence[int]]:
    """Return events with the bytes that are sent, and the partition of each.

    Java's hash is computed from the bytes that are sent, whatever the serialization.
    """
    if encoded.serializer is None:
        return encoded, choose_partitions(encoded.keys, count, partitioner)
    keys, values = encoded.written()
    hashed = keys if partitioner is Partitioner.MURMUR2 else encoded.keys
    return replace(encoded, keys=keys, values=values), choose_partitions(hashed, count, partitioner)
