"""What the checkpoint stores of a table, and how records of this and earlier releases are read."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Final

from tailrace_publisher.daemon.tables.patch import Patch
from tailrace_publisher.daemon.tables.table_state import TableState
from tailrace_publisher.snapshot.lost_rows import LostRows
from tailrace_schemas.position.change_position import ChangePosition
from tailrace_schemas.position.lsn import Lsn
from tailrace_schemas.records.checkpoint import TableCheckpoint
from tailrace_schemas.records.signals import RowKeys

_SKIPPED: Final = "skipped"
"""In records of earlier releases: followed without a snapshot."""

WAITING: Final = "?"
"""Prefix of the partitions of a table that restarts once the stream has passed their switch."""
BEFORE: Final = "~"
"""Prefix of the partitions of a stopped table, which are compared when it restarts."""


@dataclass(frozen=True, slots=True)
class TableRecord:
    """What is known of a table beyond the database's position.

    Attributes:
        covers_from: LSN from which on its changes are held. Cleanup raises the low watermark of the
            instance that holds them, not this. None while no instance holds them.
        instances: names of the capture instances that hold them, oldest first.
        schema_lsn: LSN of the version in force at the position.
        snapshot_fence: LSN at which the last published rows of its snapshot were current.
        resume_key: last published key of its snapshot, a JSON array, or None.
        snapshot_rows: published rows of its snapshot.
        source_object_id: of the source table that it started with; None before it started, or in
            records of earlier releases.
        stopped_reason: why it is stopped: the error's class, a colon, and its text.
        snapshot_bytes: size of the values of the published snapshot rows, bytes.
        snapshot_paused: whether an operator paused its snapshot.
        lacks_changes: whether an update or a delete went to the dead letters since its last
            snapshot started.
        snapshot_where: the condition of an unfinished partial snapshot.
        schema_fingerprint: recognises the version at schema_lsn; None in records of earlier
            releases.
        partitions: of the source table, as :class:`Partitions` writes them, after ``WAITING`` until
            the stream has passed a switch; None until the first comparison after its start.
        topic_partitions: partition count of its topic, which places its keys; None in records of
            earlier releases.
        patch: a patch that is due; it is being read if the state is REREADING and there is neither
            ``snapshot_where`` nor ``repair``.
        repair: the rows that an unfinished repair reads.
        instance_ids: object ids of their change tables, in the same order; empty in records of
            earlier releases. An instance that is disabled and enabled again has another one.
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
    patch: Patch | None = None
    repair: RowKeys | LostRows | None = None
    instance_ids: tuple[int, ...] = ()

    @property
    def object_ids(self) -> dict[str, int]:
        """Object id of each instance's change table by name, as far as they are known."""
        return dict(zip(self.instances, self.instance_ids, strict=False))

    @property
    def is_patched(self) -> bool:
        """Whether its patch is being read."""
        is_read = self.state is TableState.REREADING and self.patch is not None
        return is_read and self.snapshot_where is None and self.repair is None

    @property
    def repairs_lost_rows(self) -> bool:
        """Whether rows are being read that may be of a lost history, so that it is not whole."""
        return isinstance(self.repair, LostRows)

    @property
    def knows_partitions(self) -> bool:
        """Whether the publisher would notice a switch from now on."""
        return self.partitions is not None and not self.partitions.startswith((WAITING, BEFORE))

    @property
    def partitions_before(self) -> str | None:
        """The partitions to store when the table restarts.

        A table that waits for a switch keeps waiting. Otherwise a restarted publisher would start
        the table before the stream has passed the switch.
        """
        if self.partitions is None or self.partitions.startswith((WAITING, BEFORE)):
            return self.partitions
        return f"{BEFORE}{self.partitions}"

    def without_snapshot(self, position: Lsn) -> TableRecord:
        """Return the record of a table that gets a new snapshot.

        Args:
            position: commit LSN up to which changes are published. The snapshot has the values of a
                patch that is due by then.
        """
        is_patch_due = self.patch is not None and position >= self.patch.after
        return replace(
            self,
            snapshot_fence=None,
            resume_key=None,
            snapshot_rows=0,
            snapshot_bytes=0,
            lacks_changes=False,
            patch=None if is_patch_due else self.patch,
        )

    @classmethod
    def from_checkpoint(cls, record: TableCheckpoint) -> TableRecord:
        """Read a checkpoint record.

        Raises:
            ValueError: its state is unknown, or its patch or repair has another form.
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
            patch=None if record.patch is None else Patch.read(record.patch),
            repair=None if record.repair is None else _repair_of(record.repair),
            instance_ids=record.instance_ids,
        )

    def to_checkpoint(self, position: ChangePosition, now_ms: int) -> TableCheckpoint:
        """Return the checkpoint record at the stream's position."""
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
            patch=None if self.patch is None else self.patch.write(),
            repair=None if self.repair is None else json.dumps(self.repair.fields()),
            instance_ids=self.instance_ids,
        )


def _repair_of(text: str) -> RowKeys | LostRows:
    """Read the rows of a repair.

    Raises:
        ValueError: they have another form.
    """
    found = json.loads(text)
    return LostRows.read(found) if "topic" in found else RowKeys.read(found)


class OlderInstances:
    """Records that releases up to 0.2 stored per capture instance, until their tables adopt them.

    Args:
        records: by name of the instance.

    Raises:
        ValueError: a state is unknown.
    """

    def __init__(self, records: Mapping[str, TableCheckpoint]) -> None:
        self._records = {
            name: TableRecord.from_checkpoint(record) for name, record in records.items()
        }

    def follow(self, instances: Iterable[str]) -> bool:
        """Return whether the changes of one of these instances were published."""
        known = (self._records[name] for name in instances if name in self._records)
        return any(record.state is not TableState.STOPPED for record in known)

    def take(self, instances: Iterable[str], published: Lsn) -> TableRecord | None:
        """Remove and merge the records of a table's instances; None if there is none.

        Args:
            instances: names of the table's instances.
            published: last LSN up to which all changes are published.
        """
        found = [self._records.pop(name) for name in instances if name in self._records]
        if not found:
            return None
        found.sort(key=lambda record: record.covers_from or Lsn.ZERO)
        newest = found[-1]
        names = tuple(name for record in found for name in record.instances)
        covers_from = found[0].covers_from or Lsn.ZERO
        has_started = newest.state in {TableState.SNAPSHOTTING, TableState.FOLLOWED}
        if has_started and newest.snapshot_fence is not None and covers_from > published:
            # Its rows were current at a fence. Which instance held its changes there is unknown.
            covers_from, names = published, ()
        is_stopped = any(record.state is TableState.STOPPED for record in found)
        return replace(
            newest,
            state=TableState.STOPPED if is_stopped else newest.state,
            covers_from=covers_from,
            instances=names,
            instance_ids=(),
        )

    def left(self) -> list[str]:
        """Forget the records that no table adopted, and return their names."""
        left = sorted(self._records)
        self._records.clear()
        return left
