"""The messages of a task, read from the brokers by librdkafka in the executor's Python.

Spark's source would make a row of the JVM of each record, then Arrow of it, then hand it to Python.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import confluent_kafka as kafka
import pyarrow as pa

_BATCH_ROWS: Final = 20_000
"""Messages that are decoded at once: enough that numpy's calls do not count, few enough for the
processor's cache."""
_CALL_ROWS: Final = 4_000
_CALL_S: Final = 0.02
"""A call that finds the last messages of a piece waits as long for others."""
_PARTITION_EOF: Final = kafka.KafkaError._PARTITION_EOF  # noqa: SLF001 - it has no public name
_OURS: Final[Mapping[str, Any]] = {
    "enable.auto.commit": False,
    "isolation.level": "read_committed",
    # An offset that retention removed is an error, not a jump.
    "auto.offset.reset": "error",
    "enable.partition.eof": True,
    "check.crcs": True,
    # Messages that wait in memory, for each task.
    "queued.max.messages.kbytes": 32 * 1024,
    # A full queue is asked for again after a second by default (measured).
    "fetch.queue.backoff.ms": 10,
    # A piece that ends with a transaction's marker ends when a fetch comes back empty, and the
    # broker holds such a fetch for half a second by default (measured).
    "fetch.wait.max.ms": 10,
}


class MessagesMissing(Exception):
    """The brokers did not return the messages that the ledger names."""


@dataclass(frozen=True, slots=True)
class Piece:
    """Offsets of a partition from ``first`` up to ``end``, which is excluded."""

    topic: str
    partition: int
    first: int
    end: int


@dataclass(frozen=True, slots=True)
class Brokers:
    """How a task connects.

    Attributes:
        options: of librdkafka, with their secrets.
        wait_s: seconds without a message after which a read fails.
    """

    options: Mapping[str, str] = field(repr=False)
    wait_s: float


def shares_of(
    topic: str, ranges: Mapping[int, tuple[int, int]], tasks: int
) -> list[tuple[Piece, ...]]:
    """Divide ranges among tasks, by about the same number of offsets.

    Args:
        ranges: (first, next) offset by partition.
        tasks: number of shares, if there are as many offsets.

    Returns:
        For each task at most one piece of a partition.
    """
    size = max(1, -(-sum(end - first for first, end in ranges.values()) // max(1, tasks)))
    shares: list[tuple[Piece, ...]] = []
    share: list[Piece] = []
    room = size
    for partition, (first, end) in sorted(ranges.items()):
        at = first
        while at < end:
            until = min(end, at + room)
            share.append(Piece(topic, partition, at, until))
            room -= until - at
            at = until
            if not room:
                shares.append(tuple(share))
                share, room = [], size
    return [*shares, tuple(share)] if share else shares


def whole_shares_of(
    topic: str, ranges: Mapping[int, tuple[int, int]], tasks: int
) -> list[tuple[Piece, ...]]:
    """Divide ranges among tasks like :func:`shares_of`, but no partition.

    So all changes of a key, which are in one partition, are in one task.
    """
    pieces = [Piece(topic, of, first, end) for of, (first, end) in ranges.items() if first < end]
    shares: list[list[Piece]] = [[] for _ in range(min(tasks, len(pieces)))]
    sizes = [0] * len(shares)
    for piece in sorted(pieces, key=lambda piece: (piece.first - piece.end, piece.partition)):
        place = sizes.index(min(sizes))
        shares[place].append(piece)
        sizes[place] += piece.end - piece.first
    return [tuple(share) for share in shares]


def values_of(brokers: Brokers, pieces: Sequence[Piece]) -> Iterator[pa.Array]:
    """Read the values of committed messages, without tombstones, in batches.

    Args:
        pieces: each of another partition.

    Raises:
        MessagesMissing: an offset is not there, or no broker answered in time.
        KafkaException: an option is wrong.
    """
    consumer = kafka.Consumer({**brokers.options, **_OURS})
    waiting = {(piece.topic, piece.partition): piece for piece in pieces}
    try:
        consumer.assign(
            [kafka.TopicPartition(piece.topic, piece.partition, piece.first) for piece in pieces]
        )
        values: list[bytes] = []
        since = time.monotonic()
        while waiting:
            found = consumer.consume(_CALL_ROWS, _CALL_S)
            if found:
                since = time.monotonic()
            elif time.monotonic() - since > brokers.wait_s:
                missing = ", ".join(map(str, waiting.values()))
                raise MessagesMissing(f"{missing}: no message for {brokers.wait_s:g} s")
            ended = _take(found, waiting, values)
            if ended and waiting:
                consumer.pause([kafka.TopicPartition(*place) for place in ended])
            if values and (not waiting or len(values) >= _BATCH_ROWS):
                yield pa.array(values, pa.binary())
                values = []
    finally:
        consumer.close()


def _take(
    found: Sequence[Any], waiting: dict[tuple[str, int], Piece], values: list[bytes]
) -> list[tuple[str, int]]:
    """Add the values of messages; remove the pieces that have no others, and return their places.

    Transaction markers and aborted records take offsets, so a piece may end without its last one.
    """
    ended = []
    for message in found:
        place = (message.topic(), message.partition())
        piece, offset = waiting.get(place), message.offset()
        error = message.error()
        is_end = error is not None and error.code() == _PARTITION_EOF
        if error is not None and not is_end:
            raise MessagesMissing(f"{piece or place}: {error.name()}")
        if piece is None:
            continue
        if not is_end and offset < piece.end and (value := message.value()) is not None:
            values.append(value)
        if offset >= (piece.end if is_end else piece.end - 1):
            del waiting[place]
            ended.append(place)
    return ended


def require_answer(brokers: Brokers, piece: Piece) -> None:
    """Ask the brokers for the offsets of a partition.

    Raises:
        KafkaException: they did not answer, or refused.
    """
    consumer = kafka.Consumer({**brokers.options, **_OURS})
    try:
        place = kafka.TopicPartition(piece.topic, piece.partition)
        consumer.get_watermark_offsets(place, timeout=brokers.wait_s, cached=False)
    finally:
        consumer.close()
