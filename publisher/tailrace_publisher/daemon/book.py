"""What is out: the position, the closed LSN and the state of each capture instance.

It changes in memory as rows are sent and becomes durable in the Kafka transaction that holds those
rows; whatever was not committed is forgotten with the session.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime

from tailrace_publisher.errors import CheckpointError
from tailrace_publisher.snapshot.progress import SnapshotProgress, SnapshotState
from tailrace_publisher.source.identity import DatabaseIdentity
from tailrace_publisher.source.queries import CommitTime
from tailrace_schemas.checkpoint import CheckpointKey, CheckpointRecord
from tailrace_schemas.lsn import Lsn
from tailrace_schemas.position import ChangePosition, Operation

DATABASE_RECORD = ""
"""``capture_instance`` of the database's own record."""


@dataclass(frozen=True, slots=True)
class InstanceState:
    """What is known of a capture instance beyond the database's position.

    Attributes:
        covers_from: LSN from which on it holds its table's changes: its start LSN when it was
            first seen; cleanup moves the start LSN, not this.
        schema_lsn: version in force at the position.
        snapshot: of its table.
    """

    covers_from: Lsn
    schema_lsn: Lsn | None
    snapshot: SnapshotProgress


@dataclass(slots=True)
class Book:
    """The publisher's state.

    Attributes:
        server: logical name of the server.
        database: the database.
        identity: what a restore would change.
        position: everything at or before it, in every table, was sent.
        closed_lsn: last LSN at which all of its transaction was out in a committed record.
        instances: state by name of the capture instance.
        signals_offset: offset behind the last signal that was taken; None before the first.
        commit: the commit at the position, by which the database is known again; None where it
            is not known.
        reads_all_anew: whether every table gets a snapshot, whatever the configuration says of new
            ones: the checkpoint was lost.
    """

    server: str
    database: str
    identity: DatabaseIdentity
    position: ChangePosition
    closed_lsn: Lsn
    instances: dict[str, InstanceState] = field(default_factory=dict)
    signals_offset: int | None = None
    commit: CommitTime | None = None
    reads_all_anew: bool = False
    _changed: set[str] = field(default_factory=set)
    _forgotten: set[str] = field(default_factory=set)

    @classmethod
    def begin(cls, server: str, database: str, identity: DatabaseIdentity, newest: Lsn) -> Book:
        """A first start: what is captured up to now is left to the snapshots."""
        return cls(server, database, identity, ChangePosition.end_of(newest), newest)

    @classmethod
    def begin_again(
        cls,
        server: str,
        database: str,
        identity: DatabaseIdentity,
        newest: Lsn,
        *,
        closed_lsn: Lsn,
        signals_offset: int,
    ) -> Book:
        """A start after an accepted loss of the checkpoint: new snapshots of all tables.

        The first progress record goes on from the closed LSN of the last one: between the two, no
        table is part of a cut until its snapshot is over.
        """
        return cls(
            server,
            database,
            identity,
            ChangePosition.end_of(newest),
            closed_lsn,
            signals_offset=signals_offset,
            reads_all_anew=True,
        )

    @classmethod
    def restore(
        cls,
        server: str,
        database: str,
        identity: DatabaseIdentity,
        records: Mapping[CheckpointKey, CheckpointRecord],
    ) -> Book | None:
        """Go on from the checkpoint.

        Args:
            server: logical name of the server.
            database: the database.
            identity: as found now.
            records: committed checkpoints of the database.

        Returns:
            None when there is no checkpoint.

        Raises:
            CheckpointError: a record cannot be read.
        """
        own = records.get(CheckpointKey(server, database, DATABASE_RECORD))
        if own is None:
            return None
        try:
            position = _position(own)
            book = cls(
                server,
                database,
                identity,
                position,
                Lsn.parse(own.closed_lsn or own.snapshot_fence_lsn or own.start_lsn),
                signals_offset=own.signals_offset,
                commit=_commit(own),
            )
            book.identity = identity.or_as(book.known_identity(records))
            for key, record in records.items():
                if key.capture_instance != DATABASE_RECORD:
                    book.instances[key.capture_instance] = _instance_state(record)
        except ValueError as error:
            raise CheckpointError(f"checkpoint of database {database}: {error}") from error
        return book

    def known_identity(self, records: Mapping[CheckpointKey, CheckpointRecord]) -> DatabaseIdentity:
        """The identity that the checkpoint was written with."""
        own = records[CheckpointKey(self.server, self.database, DATABASE_RECORD)]
        return DatabaseIdentity(own.database_guid, own.recovery_fork_guid, own.family_guid)

    def follows(self, name: str) -> bool:
        """Whether a capture instance's changes are published, or its table's snapshot is."""
        state = self.instances.get(name)
        return state is not None and state.snapshot.state is not SnapshotState.STOPPED

    def set_instance(self, name: str, state: InstanceState) -> None:
        """Keep the state of a capture instance; its record goes with the next commit."""
        if self.instances.get(name) != state:
            self.instances[name] = state
            self._changed.add(name)
            self._forgotten.discard(name)

    def forget(self, name: str) -> None:
        """Drop the state of a capture instance whose changes are not followed any more.

        The position goes on without it, so a table that comes back later needs a new snapshot.
        """
        del self.instances[name]
        self._changed.discard(name)
        self._forgotten.add(name)

    def set_snapshot(self, name: str, snapshot: SnapshotProgress) -> None:
        """Keep how far the snapshot of an instance's table is."""
        self.set_instance(name, replace(self.instances[name], snapshot=snapshot))

    def set_schema_lsn(self, name: str, schema_lsn: Lsn) -> None:
        """Keep the version in force."""
        self.set_instance(name, replace(self.instances[name], schema_lsn=schema_lsn))

    def records_to_write(
        self, closed_lsn: Lsn, clock_ms: Callable[[], int]
    ) -> dict[CheckpointKey, CheckpointRecord | None]:
        """The records of what changed since :meth:`written`, and the database's own.

        None takes a record away.

        Args:
            closed_lsn: last closed LSN once they are committed.
            clock_ms: milliseconds UTC.
        """
        now = clock_ms()
        records: dict[CheckpointKey, CheckpointRecord | None] = {
            CheckpointKey(self.server, self.database, name): self._instance_record(name, now)
            for name in sorted(self._changed)
        }
        for name in sorted(self._forgotten):
            records[CheckpointKey(self.server, self.database, name)] = None
        position = self.position
        records[CheckpointKey(self.server, self.database, DATABASE_RECORD)] = CheckpointRecord(
            start_lsn=str(position.commit_lsn),
            seqval=str(position.seqval),
            command_id=position.command_id,
            operation=int(position.operation),
            schema_lsn=None,
            snapshot_state=SnapshotState.DONE
            if all(state.snapshot.is_over for state in self.instances.values())
            else SnapshotState.RUNNING,
            snapshot_fence_lsn=None,
            snapshot_resume_key=None,
            snapshot_rows=0,
            database_guid=self.identity.database_guid,
            recovery_fork_guid=self.identity.recovery_fork_guid,
            written_ms=now,
            signals_offset=self.signals_offset,
            # Inside a transaction the position does not tell the last closed LSN; a restarted
            # publisher repeats it in its progress records.
            closed_lsn=str(closed_lsn),
            tran_end_time=None if self.commit is None else self.commit.end_time_text,
            tran_id=None if self.commit is None else self.commit.tran_id_text,
            family_guid=self.identity.family_guid,
        )
        return records

    def written(self, closed_lsn: Lsn) -> None:
        """The records are committed."""
        self.closed_lsn = closed_lsn
        self._changed.clear()
        self._forgotten.clear()

    def _instance_record(self, name: str, now: int) -> CheckpointRecord:
        state = self.instances[name]
        return CheckpointRecord(
            start_lsn=str(state.covers_from),
            seqval=str(Lsn.ZERO),
            command_id=0,
            operation=0,
            schema_lsn=None if state.schema_lsn is None else str(state.schema_lsn),
            snapshot_state=state.snapshot.state.value,
            snapshot_fence_lsn=None if state.snapshot.fence is None else str(state.snapshot.fence),
            snapshot_resume_key=state.snapshot.resume_key,
            snapshot_rows=state.snapshot.rows,
            database_guid=self.identity.database_guid,
            recovery_fork_guid=self.identity.recovery_fork_guid,
            written_ms=now,
        )


def _position(record: CheckpointRecord) -> ChangePosition:
    return ChangePosition(
        Lsn.parse(record.start_lsn),
        record.command_id,
        Lsn.parse(record.seqval),
        Operation(record.operation),
    )


def _commit(record: CheckpointRecord) -> CommitTime | None:
    if record.tran_end_time is None or record.tran_id is None:
        return None
    end_time = datetime.fromisoformat(record.tran_end_time)
    return CommitTime(Lsn.parse(record.start_lsn), end_time, bytes.fromhex(record.tran_id))


def _instance_state(record: CheckpointRecord) -> InstanceState:
    fence = record.snapshot_fence_lsn
    return InstanceState(
        covers_from=Lsn.parse(record.start_lsn),
        schema_lsn=None if record.schema_lsn is None else Lsn.parse(record.schema_lsn),
        snapshot=SnapshotProgress(
            state=SnapshotState(record.snapshot_state),
            fence=None if fence is None else Lsn.parse(fence),
            resume_key=record.snapshot_resume_key,
            rows=record.snapshot_rows,
        ),
    )
