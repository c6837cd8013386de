"""The progress record: one per Kafka transaction, inside it; several where one would be too large.

It shows a reader that everything up to ``closed_lsn`` is published. It is the index from LSN or
time to offsets. And it is the ledger that proves that there is no gap and no duplicate.

A group is a record that closes an LSN, with the records before it that repeat the LSN before. Its
events are changes of (``after_lsn``, ``closed_lsn``] and snapshot rows at ``closed_lsn``. So a
reader may cut a group at any LSN and read the rest later, each event once.
"""

from __future__ import annotations

import zlib
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Final, Self

from tailrace_schemas.avsc import load
from tailrace_schemas.position.change_position import Operation

PROGRESS_SCHEMA: Final[dict[str, Any]] = load("progress")
"""A progress record; its fields are explained in avsc/progress.avsc."""


def _without(*names: str) -> dict[str, Any]:
    kept = [field for field in PROGRESS_SCHEMA["fields"] if field["name"] not in names]
    return {**PROGRESS_SCHEMA, "fields": kept}


SHARDS_SCHEMA: Final = _without("patched")
"""The same where no patch ends; its last field is all that it lacks."""

ONE_SHARD_SCHEMA: Final = _without("shards", "patched")
"""The same where there is one shard, too."""

_SINCE_0_2: Final = {"bytes", "operations", "shards", "patched"}


def _of_0_1(schema: Any) -> Any:
    """A part of the schema without the fields that 0.1 did not write."""
    if isinstance(schema, list):
        return [_of_0_1(part) for part in schema]
    if not isinstance(schema, dict):
        return schema
    parts = {key: _of_0_1(part) for key, part in schema.items()}
    if "fields" in parts:
        parts["fields"] = [field for field in parts["fields"] if field["name"] not in _SINCE_0_2]
    return parts


SCHEMA_OF_0_1: Final[dict[str, Any]] = _of_0_1(PROGRESS_SCHEMA)
"""A progress record as release 0.1 wrote it; the topic may still hold some."""

PUBLISHER_HEADER: Final = "tailrace.publisher"
"""Header of a progress record: host, colon and process id of the publisher that wrote it."""

LOST_HEADER: Final = "tailrace.lost_commits"
"""Header of a progress record without events: JSON that names the published commits that are gone.

``tailrace accept-database`` writes it. Fields: ``kept_lsn``, ``through_lsn`` (text; the commits
between them are gone; ``kept_lsn`` is null if none is known that was kept), ``events`` (by data
topic), ``snapshots`` (data topics that start again by a snapshot), ``repairs`` (data topics of
which some rows are read again; until then they may mix both histories)."""

_WORD: Final = (1 << 64) - 1

_NAMES: Final = {"closed_lsn": "through_lsn", "closed_commit_ms": "through_commit_ms"}
"""Fields that have another name in the record: it keeps the names of its first form.

Readers of other languages know them, and a rename would need a new version of the record."""


def position_hash(packed: bytes) -> int:
    """The order-free hash of one position (25 bytes): added up modulo 2**64 per partition."""
    return zlib.crc32(packed)


def signed(total: int) -> int:
    """A sum of position hashes as Avro's long holds it."""
    total &= _WORD
    return total - (1 << 64) if total >> 63 else total


@dataclass(frozen=True, slots=True)
class OperationCounts:
    """Events by ``op``: r, c, u and d."""

    reads: int = 0
    creates: int = 0
    updates: int = 0
    deletes: int = 0

    @classmethod
    def of_positions(cls, counts: Mapping[int, int]) -> Self:
        """From how many positions end with which operation (see ``position.Operation``)."""
        return cls(
            reads=counts.get(Operation.READ, 0),
            creates=counts.get(Operation.INSERT, 0),
            updates=counts.get(Operation.UPDATE_AFTER, 0),
            deletes=counts.get(Operation.DELETE, 0),
        )

    def plus(self, other: OperationCounts) -> OperationCounts:
        """Both together."""
        return OperationCounts(
            self.reads + other.reads,
            self.creates + other.creates,
            self.updates + other.updates,
            self.deletes + other.deletes,
        )


@dataclass(slots=True)
class PartitionProgress:
    """What one Kafka transaction put into one topic-partition: offsets in [first, next).

    Attributes:
        first_offset: offset of the first record.
        next_offset: offset after the last one.
        count: events, tombstones left out.
        position_hash: sum of the hashes of their positions.
        schema_ids: registry ids of their schemas.
        bytes: of the events' values; None in records of the first form.
        operations: the events by op; None in records of the first form, and where the publisher's
            options leave out operations: then they would say nothing of the table.
    """

    topic: str
    partition: int
    first_offset: int
    next_offset: int
    count: int
    position_hash: int
    schema_ids: list[int] = field(default_factory=list)
    bytes: int | None = None
    operations: OperationCounts | None = None


@dataclass(slots=True)
class PatchedColumns:
    """Columns of a table whose values from before a hand-over are now published, too."""

    topic: str
    columns: list[str]


@dataclass(slots=True)
class Progress:
    """A progress record. LSNs are text; times are milliseconds UTC.

    Attributes:
        shard: always 0; releases up to 0.2 could divide a database among several publishers.
        server: logical name of the server.
        after_lsn: closed LSN of the record before.
        closed_lsn: everything up to it is published; of a record inside an unfinished large
            transaction, the one before it; ``through_lsn`` in the record.
        closed_commit_ms: its commit time; ``through_commit_ms`` in the record.
        closed: whether this record closes an LSN.
        published_ms: when it was sent.
        partitions: what its Kafka transaction put where.
        snapshotting: topics of tables that are not part of the cut.
        shards: always 1, for the same reason.
        patched: columns that are whole from ``closed_lsn`` on.
    """

    shard: int
    server: str
    database: str
    after_lsn: str
    closed_lsn: str
    closed_commit_ms: int | None
    closed: bool
    published_ms: int
    partitions: list[PartitionProgress] = field(default_factory=list)
    snapshotting: list[str] = field(default_factory=list)
    shards: int = 1
    patched: list[PatchedColumns] = field(default_factory=list)

    def to_record(self) -> dict[str, Any]:
        """The fields of the Avro record."""
        fields = asdict(self)
        for name, written in _NAMES.items():
            fields[written] = fields.pop(name)
        return fields

    @classmethod
    def from_record(cls, record: Mapping[str, Any]) -> Self:
        """The record of the fields of one in Avro.

        Raises:
            KeyError, TypeError: they are not those of a progress record.
        """
        fields = dict(record)
        for name, written in _NAMES.items():
            fields[name] = fields.pop(written)
        partitions = [_partition_of(entry) for entry in fields.pop("partitions")]
        patched = [PatchedColumns(**entry) for entry in fields.pop("patched", ())]
        return cls(partitions=partitions, patched=patched, **fields)


def _partition_of(entry: Mapping[str, Any]) -> PartitionProgress:
    fields = dict(entry)
    operations = fields.pop("operations", None)
    return PartitionProgress(
        operations=None if operations is None else OperationCounts(**operations), **fields
    )
