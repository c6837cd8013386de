"""A table whose snapshot is not finished, and one published part of it."""

from __future__ import annotations

from dataclasses import dataclass

from tailrace_publisher.change.instance import CaptureInstance
from tailrace_publisher.encode.encoded_events import EncodedRows
from tailrace_publisher.encode.event_kinds import Kind
from tailrace_publisher.snapshot.lost_rows import LostRows
from tailrace_publisher.snapshot.progress import SnapshotProgress
from tailrace_schemas.events.envelope import TableSchema
from tailrace_schemas.records.signals import RowKeys
from tailrace_schemas.topics.topic_names import TableName


@dataclass(frozen=True, slots=True)
class PendingTable:
    """A table whose snapshot is not finished.

    Attributes:
        where: the condition of the rows to read; None for all rows.
        beginning: the number of this snapshot of the table. It distinguishes a snapshot from one
            that was given up and requested again at the same place. Rows read for the given-up one
            are older than the changes that its end voided.
        kind: of its events: READ, or PATCH for columns that the table's changes lack.
        repair: the rows to read, if a repair reads them.
    """

    instance: CaptureInstance
    schema: TableSchema
    progress: SnapshotProgress
    where: str | None = None
    beginning: int = 0
    kind: Kind = Kind.READ
    repair: RowKeys | LostRows | None = None

    @property
    def name(self) -> TableName:
        """The table."""
        return self.instance.table

    @property
    def is_cut(self) -> bool:
        """Whether it is read in chunks: it has columns that distinguish its rows."""
        return bool(self.instance.identity)

    def resumes_from(self, other: PendingTable) -> bool:
        """Return whether it is the same snapshot at the same place."""
        return (
            self.progress == other.progress
            and self.beginning == other.beginning
            and self.where == other.where
            and self.kind is other.kind
            and self.repair == other.repair
        )

    def reads_like(self, other: PendingTable) -> bool:
        """Return whether rows that were read for one table value are valid for the other.

        They are not if another capture instance now reports the changed keys, or the table's
        columns or its present name differ.
        """
        return (
            self.instance.object_id == other.instance.object_id
            and self.instance.renamed_to == other.instance.renamed_to
            and self.instance.columns == other.instance.columns
            and self.instance.identity == other.instance.identity
            and self.schema == other.schema
        )


@dataclass(frozen=True, slots=True)
class SnapshotPart:
    """What one chunk yields: rows to publish, and the progress once they are published."""

    table: PendingTable
    rows: EncodedRows
    progress: SnapshotProgress
