"""A table whose snapshot is not over, and what a part of it brings."""

from __future__ import annotations

from dataclasses import dataclass

from tailrace_publisher.change.instance import CaptureInstance
from tailrace_publisher.encode.encoded_events import EncodedRows
from tailrace_publisher.snapshot.progress import SnapshotProgress
from tailrace_schemas.events.envelope import TableSchema


@dataclass(frozen=True, slots=True)
class PendingTable:
    """A table whose snapshot is not over.

    Attributes:
        topic: where its rows go.
        instance: the capture instance that is read now.
        schema: the version in force.
        progress: how far the snapshot is.
        where: a condition of the rows that it reads; None for all of them.
        beginning: which snapshot of the table it is. One that is given up and asked for again at
            once is another one, though nothing else tells: what was read for the first is older
            than the changes that are void with it.
    """

    topic: str
    instance: CaptureInstance
    schema: TableSchema
    progress: SnapshotProgress
    where: str | None = None
    beginning: int = 0

    @property
    def is_cut(self) -> bool:
        """Whether it is read in chunks: there are columns that tell its rows apart."""
        return bool(self.instance.identity)

    def goes_on_from(self, other: PendingTable) -> bool:
        """Whether it is the same snapshot at the same place."""
        return self.progress == other.progress and self.beginning == other.beginning

    def reads_like(self, other: PendingTable) -> bool:
        """Whether rows that were read for the one are rows of the other.

        They are not where the keys that changed since are known from another capture instance, or
        the table has other columns.
        """
        return (
            self.instance.object_id == other.instance.object_id
            and self.instance.columns == other.instance.columns
            and self.instance.identity == other.instance.identity
            and self.schema == other.schema
        )


@dataclass(frozen=True, slots=True)
class SnapshotPart:
    """What a chunk gives: rows to publish and what is true once they are out."""

    table: PendingTable
    rows: EncodedRows
    progress: SnapshotProgress
