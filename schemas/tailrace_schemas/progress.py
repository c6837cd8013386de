"""The progress record: one per Kafka transaction, inside it.

It tells a reader that everything up to ``through_lsn`` is out (closed LSN), it is the index from
LSN or time to offsets, and it is the ledger that proves no gap and no duplicate.
"""

from __future__ import annotations

import zlib
from dataclasses import dataclass, field
from typing import Any, Final

from tailrace_schemas.avsc import load

PROGRESS_SCHEMA: Final[dict[str, Any]] = load("progress")
"""A progress record; its fields are explained in avsc/progress.avsc."""

_WORD: Final = (1 << 64) - 1


def position_hash(packed: bytes) -> int:
    """The order-free hash of one position (25 bytes): added up modulo 2**64 per partition."""
    return zlib.crc32(packed)


def signed(total: int) -> int:
    """A sum of position hashes as Avro's long holds it."""
    total &= _WORD
    return total - (1 << 64) if total >> 63 else total


@dataclass(slots=True)
class PartitionProgress:
    """What one Kafka transaction put into one topic-partition: offsets in [first, next)."""

    topic: str
    partition: int
    first_offset: int
    next_offset: int
    count: int
    position_hash: int
    schema_ids: list[int] = field(default_factory=list)


@dataclass(slots=True)
class Progress:
    """A progress record. LSNs are text; times are milliseconds UTC."""

    shard: int
    server: str
    database: str
    after_lsn: str
    through_lsn: str
    through_commit_ms: int | None
    closed: bool
    published_ms: int
    partitions: list[PartitionProgress] = field(default_factory=list)
    snapshotting: list[str] = field(default_factory=list)
