"""What is kept of a table, and how it is read from records of this release and of earlier ones."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Final

from tailrace_publisher.daemon.tables.table_state import TableState
from tailrace_schemas.position.change_position import ChangePosition
from tailrace_schemas.position.lsn import Lsn
from tailrace_schemas.records.checkpoint import TableCheckpoint

_SKIPPED: Final = "skipped"
"""In records of earlier releases: followed without a snapshot."""

WAITING: Final = "?"
"""Before the partitions of a table that begins again when the stream has passed their switch."""
BEFORE: Final = "~"
"""Before those that a table had when it stopped, and that are to be compared when it begins."""


@dataclass(frozen=True, slots=True)
class TableRecord:
    """What is known of a table beyond the database's position.

    Attributes:
        state: where it is.
        covers_from: LSN from which on its changes are held; cleanup moves the low watermark of what
            holds them, not this. None while nothing holds them.
        instances: names of the capture instances that hold them, oldest first.
        schema_lsn: version in force at the position.
        snapshot_fence: LSN at which the last published rows of its snapshot were current.
        resume_key: JSON array of the last key of its snapshot that is out, or None.
        snapshot_rows: rows of its snapshot that are out.
        source_object_id: of the source table that it was begun with; None where it was not, or by
            an earlier release.
        stopped_reason: what it cannot go on for: the error's class, a colon, and its text.
        snapshot_bytes: of the values of those rows.
        snapshot_paused: whether an operator paused its snapshot.
        lacks_changes: whether a change that is no creation went to the dead letters since its last
            snapshot began.
        snapshot_where: the condition of a partial snapshot that is not over.
        schema_fingerprint: of that version, by which it is known again; None by an earlier release.
        partitions: of the source table, as :class:`Partitions` writes them, after ``WAITING`` while
            the stream has not passed a switch; None until somebody looked since it began.
        topic_partitions: number of its topic's partitions, by which its keys are placed; None by an
            earlier release.
    """

    state: TableState = TableState.MISSING
    covers_from: Lsn | None = None
    instances: tuple[str, ...] = ()
    schema_lsn: Lsn | None = None
    snapshot_fence: Lsn | None = None
    resume_key: str | None = None
    snapshot_rows: int = 0
    source_object_id: int | None = None
    stopped_reason: str | None = None
    snapshot_bytes: int = 0
    snapshot_paused: bool = False
    lacks_changes: bool = False
    snapshot_where: str | None = None
    schema_fingerprint: str | None = None
    partitions: str | None = None
    topic_partitions: int | None = None

    @property
    def knows_partitions(self) -> bool:
        """Whether a switch would be noticed that comes from now on."""
        return self.partitions is not None and not self.partitions.startswith((WAITING, BEFORE))

    @property
    def partitions_before(self) -> str | None:
        """What is kept of the partitions when the table begins again.

        One that waits goes on waiting: another life must not begin it before the switch is passed.
        """
        if self.partitions is None or self.partitions.startswith((WAITING, BEFORE)):
            return self.partitions
        return f"{BEFORE}{self.partitions}"

    @classmethod
    def from_checkpoint(cls, record: TableCheckpoint) -> TableRecord:
        """Read a checkpoint record.

        Raises:
            ValueError: its state is none.
        """
        skipped = record.state == _SKIPPED
        return cls(
            state=TableState.FOLLOWED if skipped else TableState(record.state),
            covers_from=record.covers_from,
            instances=record.capture_instances,
            schema_lsn=record.schema_lsn,
            snapshot_fence=record.snapshot_fence,
            resume_key=record.snapshot_resume_key,
            snapshot_rows=record.snapshot_rows,
            source_object_id=record.source_object_id,
            stopped_reason=record.stopped_reason,
            snapshot_bytes=record.snapshot_bytes,
            snapshot_paused=record.snapshot_paused,
            lacks_changes=record.lacks_changes,
            snapshot_where=record.snapshot_where,
            schema_fingerprint=record.schema_fingerprint,
            partitions=record.partitions,
            topic_partitions=record.topic_partitions,
        )

    def to_checkpoint(self, position: ChangePosition, now_ms: int) -> TableCheckpoint:
        """The checkpoint record.

        Args:
            position: where the stream is.
            now_ms: milliseconds UTC.
        """
        return TableCheckpoint(
            state=self.state.value,
            position=position,
            covers_from=self.covers_from,
            snapshot_fence=self.snapshot_fence,
            snapshot_resume_key=self.resume_key,
            snapshot_rows=self.snapshot_rows,
            schema_lsn=self.schema_lsn,
            capture_instances=self.instances,
            written_ms=now_ms,
            source_object_id=self.source_object_id,
            stopped_reason=self.stopped_reason,
            snapshot_bytes=self.snapshot_bytes,
            snapshot_paused=self.snapshot_paused,
            lacks_changes=self.lacks_changes,
            snapshot_where=self.snapshot_where,
            schema_fingerprint=self.schema_fingerprint,
            partitions=self.partitions,
            topic_partitions=self.topic_partitions,
        )


class OlderInstances:
    """What releases up to 0.2 kept of single capture instances, until their tables take it over.

    Args:
        records: by name of the instance.

    Raises:
        ValueError: a state is none.
    """

    def __init__(self, records: Mapping[str, TableCheckpoint]) -> None:
        self._records = {
            name: TableRecord.from_checkpoint(record) for name, record in records.items()
        }

    def follow(self, instances: Iterable[str]) -> bool:
        """Whether the changes of one of these were published."""
        known = (self._records[name] for name in instances if name in self._records)
        return any(record.state is not TableState.STOPPED for record in known)

    def take(self, instances: Iterable[str], out: Lsn) -> TableRecord | None:
        """Take over what was kept of a table's instances; None when that is nothing.

        Args:
            instances: their names.
            out: last LSN up to which all changes are published.
        """
        found = [self._records.pop(name) for name in instances if name in self._records]
        if not found:
            return None
        found.sort(key=lambda record: record.covers_from or Lsn.ZERO)
        newest = found[-1]
        names = tuple(name for record in found for name in record.instances)
        covers_from = found[0].covers_from or Lsn.ZERO
        has_begun = newest.state in {TableState.SNAPSHOTTING, TableState.FOLLOWED}
        if has_begun and newest.snapshot_fence is not None and covers_from > out:
            # Its rows were current at a fence: what held its changes there is not known any more.
            covers_from, names = out, ()
        is_stopped = any(record.state is TableState.STOPPED for record in found)
        return replace(
            newest,
            state=TableState.STOPPED if is_stopped else newest.state,
            covers_from=covers_from,
            instances=names,
        )

    def left(self) -> list[str]:
        """Names of those that no table has taken over; they are forgotten."""
        left = sorted(self._records)
        self._records.clear()
        return left
