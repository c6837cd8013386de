"""What is published: the position, the closed LSN and the state of each table.

The state changes in memory as rows are sent. It becomes durable in the Kafka transaction that holds
those rows. What was not committed is lost with the session.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Final

from tailrace_publisher.change.ranges import first_lsn_after
from tailrace_publisher.checkpoint.reader import Stored
from tailrace_publisher.daemon.tables.table_record import OlderInstances, TableRecord
from tailrace_publisher.daemon.tables.table_state import (
    OUT_OF_CUT,
    PUBLISHED,
    STORED,
    UNREAD,
    TableEvent,
    TableState,
    state_after,
)
from tailrace_publisher.deliver.delivery import Checkpoints
from tailrace_publisher.errors import CheckpointError
from tailrace_publisher.source.log.commit_times import CommitTime
from tailrace_publisher.source.log.identity import DatabaseIdentity
from tailrace_schemas.position.change_position import ChangePosition
from tailrace_schemas.position.lsn import Lsn
from tailrace_schemas.records.checkpoint import CheckpointKey, DatabaseCheckpoint, TableCheckpoint
from tailrace_schemas.topics.topic_names import TableName

_NOTHING: Final = TableRecord()
_REFUSALS_KEPT_MS: Final = 60_000
"""How long a requester can read why; each commit writes the records, so they must stay small."""


@dataclass(slots=True)
class PublisherState:
    """The publisher's state.

    Attributes:
        server: logical name of the server.
        identity: what a restore would change.
        position: all changes at or before it, in every table, were sent.
        closed_lsn: last LSN whose transaction is completely published, in a committed record.
        signals_offset: offset after the last processed signal; None before the first.
        commit: the commit at the position, which recognises the database; None if unknown.
        start_lsn: LSN that the configuration starts at; None without one, or once that is
            committed.
        open_transaction: published events per table of the transaction that the position is inside;
            None if it is inside none, or if they are not counted.
        announced_lsn: LSN up to which schema changes are published; None if they are not published.
        paused_since_ms: since when the publisher is paused, milliseconds UTC; None if it is not.
        by_function: whether changes are read through the query functions, without command ids.
        map_number: of the map of shards.
        moves: how often a table entered or left the published ones.
        resnapshots_all: whether every table gets a snapshot, whatever the configuration says of new
            tables, because the checkpoint was lost.
    """

    server: str
    database: str
    identity: DatabaseIdentity
    position: ChangePosition
    closed_lsn: Lsn
    signals_offset: int | None = None
    commit: CommitTime | None = None
    resnapshots_all: bool = False
    start_lsn: Lsn | None = None
    open_transaction: Mapping[str, int] | None = None
    announced_lsn: Lsn | None = None
    paused_since_ms: int | None = None
    by_function: bool = False
    map_number: int = 0
    moves: int = 0
    _refused: dict[int, list[str]] = field(default_factory=dict)
    _refused_ms: int | None = None
    _tables: dict[TableName, TableRecord] = field(default_factory=dict)
    _changed: set[TableName] = field(default_factory=set)
    _named: set[TableName] = field(default_factory=set)
    _restarted: set[TableName] = field(default_factory=set)
    _snapshot_numbers: Counter[TableName] = field(default_factory=Counter)
    _out_of_cut: list[TableName] | None = None
    _unread: list[TableName] | None = None
    _lacking: set[str] | None = None
    _older: OlderInstances = field(default_factory=lambda: OlderInstances({}))
    _older_keys: list[bytes] = field(default_factory=list)

    @classmethod
    def first_start(
        cls, server: str, database: str, identity: DatabaseIdentity, newest: Lsn
    ) -> PublisherState:
        """Create the state of a first start: snapshots bring what is captured up to now."""
        return cls(server, database, identity, ChangePosition.end_of(newest), newest)

    @classmethod
    def after_lost_checkpoint(
        cls,
        server: str,
        database: str,
        identity: DatabaseIdentity,
        newest: Lsn,
        *,
        closed_lsn: Lsn,
        signals_offset: int,
    ) -> PublisherState:
        """Create the state after an accepted loss of the checkpoint: all tables get new snapshots.

        The first progress record continues from the closed LSN of the last one. In between, no
        table is part of a cut until its snapshot is finished.
        """
        return cls(
            server,
            database,
            identity,
            ChangePosition.end_of(newest),
            closed_lsn,
            signals_offset=signals_offset,
            resnapshots_all=True,
        )

    @classmethod
    def restore(
        cls, server: str, database: str, identity: DatabaseIdentity, stored: Stored
    ) -> PublisherState | None:
        """Continue from the checkpoint.

        Args:
            server: logical name of the server.
            identity: of the database, as found now.
            stored: the committed checkpoint of the database.

        Returns:
            None if there is no checkpoint.

        Raises:
            CheckpointError: a record cannot be read.
        """
        own = stored.database
        if own is None:
            return None
        try:
            state = cls(
                server,
                database,
                identity.or_as(known_identity(own)),
                own.position,
                own.closed_lsn,
                signals_offset=own.signals_offset,
                commit=_commit(own),
                open_transaction=own.open_transaction,
                announced_lsn=own.announced_lsn,
                paused_since_ms=own.paused_since_ms,
                _refused={int(at): [reason] for at, reason in own.refused_signals.items()},
                _tables={
                    name: TableRecord.from_checkpoint(record)
                    for name, record in stored.tables.items()
                },
                _older=OlderInstances(stored.older_instances),
                _older_keys=list(stored.older_keys),
            )
        except ValueError as error:
            raise CheckpointError(f"checkpoint of database {database}: {error}") from error
        state._named = set(state.out_of_cut())
        return state

    def start_at(self, lsn: Lsn) -> None:
        """Make a first start publish changes from an LSN on, inclusive, instead of snapshots."""
        self.start_lsn = lsn
        self.closed_lsn = lsn.decrement()
        self.position = ChangePosition.end_of(self.closed_lsn)

    @property
    def published_lsn(self) -> Lsn:
        """Last LSN up to which all changes are published."""
        return first_lsn_after(self.position).decrement()

    # -- tables ------------------------------------------------------------------------------------

    def of(self, table: TableName) -> TableRecord:
        """Return what is known of a table."""
        return self._tables.get(table, _NOTHING)

    def records(self) -> dict[TableName, TableRecord]:
        """Return a copy of all tables' records; safe to call from another thread."""
        return self._tables.copy()

    def known(self) -> set[TableName]:
        """Return the tables that have a record."""
        return {name for name, record in self._tables.items() if record.state in STORED}

    def out_of_cut(self) -> Sequence[TableName]:
        """Return the tables that are not part of the cut, including those that are gone."""
        if self._out_of_cut is None:
            self._out_of_cut = [n for n, r in self._tables.items() if r.state in OUT_OF_CUT]
        return self._out_of_cut

    def unread(self) -> Sequence[TableName]:
        """Return the tables whose snapshots are not completely read."""
        if self._unread is None:
            self._unread = [n for n, r in self._tables.items() if r.state in UNREAD]
        return self._unread

    def restarted_tables(self) -> set[TableName]:
        """Return tables that the last record names and that have restarted from scratch since."""
        return self._restarted & self._named

    def snapshot_number(self, table: TableName) -> int:
        """Return how many snapshots of a table were requested since the start."""
        return self._snapshot_numbers[table]

    @property
    def has_moved(self) -> bool:
        """Whether a table differs from its checkpoint record."""
        return bool(self._changed)

    def happened(
        self, table: TableName, event: TableEvent, known: TableRecord | None = None
    ) -> TableRecord:
        """Move a table to the state after an event; the next commit writes its record.

        Args:
            known: its record from now on; default: unchanged.

        Raises:
            ForbiddenTransition: its state forbids the event.
        """
        before = self.of(table)
        after = replace(known or before, state=state_after(before.state, event))
        if event is TableEvent.GONE:
            after = TableRecord()
        elif event is TableEvent.SNAPSHOT_WANTED:
            self._restarted.add(table)
        is_new_snapshot = event in {TableEvent.SNAPSHOT_WANTED, TableEvent.PART_WANTED}
        self._snapshot_numbers[table] += is_new_snapshot
        if is_new_snapshot or after.state not in UNREAD:
            after = replace(after, snapshot_paused=False)  # a pause is of one snapshot
        if after.state is not TableState.REREADING:
            after = replace(after, snapshot_where=None)
        self.store(table, after)
        return after

    def store(self, table: TableName, record: TableRecord) -> None:
        """Store a table's record; the next commit writes it."""
        before = self.of(table)
        if before != record:
            self._tables[table] = record
            self.moves += (before.state in PUBLISHED) != (record.state in PUBLISHED)
            if before.state is not record.state:
                self._out_of_cut = self._unread = None
            if before.lacks_changes != record.lacks_changes:
                self._lacking = None
            if record.state in STORED or before.state in STORED:
                self._changed.add(table)

    def lacks_changes(self, table: str) -> bool:
        """Return whether a table, by its whole name, lacks changes that became dead letters."""
        if self._lacking is None:
            self._lacking = {str(n) for n, r in self._tables.items() if r.lacks_changes}
        return table in self._lacking

    def note_lacking(self, table: str) -> None:
        """Store that a table, by its whole name, lacks a change until its next snapshot."""
        for name, record in list(self._tables.items()):
            if str(name) == table and not record.lacks_changes:
                self.store(name, replace(record, lacks_changes=True))

    def holds_events(self, table: TableName, instances: Iterable[str]) -> bool:
        """Return whether a topic holds the table's events, by its record or its instances'."""
        return self.of(table).state in PUBLISHED or self._older.follow(instances)

    def published_as(self) -> dict[int, TableName]:
        """Return the name under which each table is published, by its object id."""
        return {
            record.source_object_id: name
            for name, record in self._tables.items()
            if record.state in STORED and record.source_object_id is not None
        }

    def adopt(self, table: TableName, instances: Iterable[str]) -> None:
        """Adopt what an earlier release stored per capture instance, unless the table has a record.

        Args:
            instances: names of its instances, present or gone.
        """
        found = self._older.take(instances, self.published_lsn)
        if found is not None and self.of(table).state not in STORED:
            self.store(table, found)

    def older_left(self) -> list[str]:
        """Return names of instances in an earlier release's records that no table adopted."""
        return self._older.left()

    # -- records -----------------------------------------------------------------------------------

    def database_record(self, closed_lsn: Lsn, now_ms: int) -> DatabaseCheckpoint:
        """Return the database's own record.

        Args:
            closed_lsn: last closed LSN once this is committed. The position does not give it inside
                a transaction, and a restarted publisher repeats it in its progress records.
        """
        return DatabaseCheckpoint(
            position=self.position,
            closed_lsn=closed_lsn,
            written_ms=now_ms,
            database_guid=self.identity.database_guid,
            recovery_fork_guid=self.identity.recovery_fork_guid,
            family_guid=self.identity.family_guid,
            tran_end_time=None if self.commit is None else self.commit.end_time_text,
            tran_id=None if self.commit is None else self.commit.tran_id_text,
            signals_offset=self.signals_offset,
            open_transaction=self.open_transaction,
            announced_lsn=self.announced_lsn,
            paused_since_ms=self.paused_since_ms,
            by_function=self.by_function,
            refused_signals=self._refusals(now_ms),
            map_number=self.map_number,
        )

    def refuse_signal(self, offset: int, reason: str) -> None:
        """Store why a signal was refused, for its requester; the next commits write it."""
        self._refused.setdefault(offset, []).append(reason)
        self._refused_ms = None

    def _refusals(self, now_ms: int) -> dict[str, str]:
        if self._refused_ms is None:
            self._refused_ms = now_ms
        elif now_ms - self._refused_ms > _REFUSALS_KEPT_MS:
            self._refused.clear()
        return {str(offset): "; ".join(reasons) for offset, reasons in self._refused.items()}

    def records_to_write(self, database: DatabaseCheckpoint, now_ms: int) -> Checkpoints:
        """Return the database's own record and those that changed since :meth:`written`.

        None deletes a record: of a table that is gone, or in a form of earlier releases.
        """
        records: dict[CheckpointKey | bytes, DatabaseCheckpoint | TableCheckpoint | None] = {
            CheckpointKey(self.server, self.database, name): self._checkpoint_of(name, now_ms)
            for name in sorted(self._changed, key=str)
        }
        records[CheckpointKey(self.server, self.database)] = database
        records.update(dict.fromkeys(self._older_keys))
        return records

    def written(self, closed_lsn: Lsn) -> None:
        """Note that the records are committed."""
        self.closed_lsn = closed_lsn
        self.start_lsn = None
        self._changed.clear()
        self._restarted.clear()
        self._named = set(self.out_of_cut())
        self._older_keys.clear()

    def _checkpoint_of(self, table: TableName, now_ms: int) -> TableCheckpoint | None:
        record = self.of(table)
        return record.to_checkpoint(self.position, now_ms) if record.state in STORED else None


def known_identity(own: DatabaseCheckpoint) -> DatabaseIdentity:
    """Return the identity of the database when the checkpoint was written."""
    return DatabaseIdentity(own.database_guid, own.recovery_fork_guid, own.family_guid)


def _commit(own: DatabaseCheckpoint) -> CommitTime | None:
    if own.tran_end_time is None or own.tran_id is None:
        return None
    end_time = datetime.fromisoformat(own.tran_end_time)
    return CommitTime(own.position.commit_lsn, end_time, bytes.fromhex(own.tran_id))
