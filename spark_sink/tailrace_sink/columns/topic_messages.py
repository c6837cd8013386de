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
_CALL_S: Final = 0.1
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


def pieces_of(topic: str, ranges: Mapping[int, tuple[int, int]], tasks: int) -> list[Piece]:
    """Divide ranges into pieces of about the same number of offsets.

    Args:
        ranges: (first, next) offset by partition.
        tasks: number of pieces, as far as each has one partition.
    """
    size = max(1, -(-sum(end - first for first, end in ranges.values()) // max(1, tasks)))
    return [
        Piece(topic, partition, at, min(end, at + size))
        for partition, (first, end) in sorted(ranges.items())
        for at in range(first, end, size)
    ]


def values_of(brokers: Brokers, piece: Piece) -> Iterator[pa.Array]:
    """Read the values of committed messages, without tombstones, in batches.

    Raises:
        MessagesMissing: an offset is not there, or no broker answered in time.
        KafkaException: an option is wrong.
    """
    consumer = kafka.Consumer({**brokers.options, **_OURS})
    try:
        consumer.assign([kafka.TopicPartition(piece.topic, piece.partition, piece.first)])
        values: list[bytes] = []
        since, is_over = time.monotonic(), False
        while not is_over:
            found = consumer.consume(_CALL_ROWS, _CALL_S)
            if found:
                since = time.monotonic()
            elif time.monotonic() - since > brokers.wait_s:
                raise MessagesMissing(f"{piece}: no message for {brokers.wait_s:g} s")
            is_over = _take(found, piece, values)
            if values and (is_over or len(values) >= _BATCH_ROWS):
                yield pa.array(values, pa.binary())
                values = []
    finally:
        consumer.close()


def _take(found: Sequence[Any], piece: Piece, values: list[bytes]) -> bool:
    """Add the values of messages; return whether the piece has no others.

    Transaction markers and aborted records take offsets, so a piece may end without its last one.
    """
    for message in found:
        error = message.error()
        if error is not None:
            if error.code() != kafka.KafkaError._PARTITION_EOF:  # noqa: SLF001 - it has no public name
                raise MessagesMissing(f"{piece}: {error.name()}")
            if message.offset() >= piece.end:
                return True
            continue
        offset = message.offset()
        if offset < piece.end and (value := message.value()) is not None:
            values.append(value)
        if offset >= piece.end - 1:
            return True
    return False


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
