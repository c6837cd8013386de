"""What is out: the position, the closed LSN and the state of each table.

It changes in memory as rows are sent and becomes durable in the Kafka transaction that holds those
rows; whatever was not committed is forgotten with the session.
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
    KEPT,
    OUT_OF_CUT,
    PUBLISHED,
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
"""For so long who asked may look why; records are written with each commit, so they stay small."""


@dataclass(slots=True)
class PublisherState:
    """The publisher's state.

    Attributes:
        server: logical name of the server.
        database: the database.
        identity: what a restore would change.
        position: everything at or before it, in every table, was sent.
        closed_lsn: last LSN at which all of its transaction was out in a committed record.
        signals_offset: offset behind the last signal that was taken; None before the first.
        commit: the commit at the position, by which the database is known again; None where it
            is not known.
        start_lsn: LSN that the configuration begins with; None once that is committed, and where
            it does not say.
        open_transaction: events per table that are out of the transaction that the position is in;
            None where it is in none, or nobody counts them.
        announced_lsn: LSN up to which schema changes are out; None where nobody tells them.
        paused_since_ms: since when the publisher is paused, milliseconds UTC; None where it is not.
        by_function: whether changes are read through the query functions, without command ids.
        map_number: of the map of shards.
        moves: how often a table came to be published, or was not any more.
        reads_all_anew: whether every table gets a snapshot, whatever the configuration says of new
            ones: the checkpoint was lost.
    """

    server: str
    database: str
    identity: DatabaseIdentity
    position: ChangePosition
    closed_lsn: Lsn
    signals_offset: int | None = None
    commit: CommitTime | None = None
    reads_all_anew: bool = False
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
    _begun: set[TableName] = field(default_factory=set)
    _beginnings: Counter[TableName] = field(default_factory=Counter)
    _out_of_cut: list[TableName] | None = None
    _unread: list[TableName] | None = None
    _lacking: set[str] | None = None
    _older: OlderInstances = field(default_factory=lambda: OlderInstances({}))
    _older_keys: list[bytes] = field(default_factory=list)

    @classmethod
    def begin(
        cls, server: str, database: str, identity: DatabaseIdentity, newest: Lsn
    ) -> PublisherState:
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
    ) -> PublisherState:
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
        cls, server: str, database: str, identity: DatabaseIdentity, stored: Stored
    ) -> PublisherState | None:
        """Go on from the checkpoint.

        Args:
            server: logical name of the server.
            database: the database.
            identity: as found now.
            stored: the committed checkpoint of the database.

        Returns:
            None when there is no checkpoint.

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

    def begin_at(self, lsn: Lsn) -> None:
        """A first start with changes from an LSN on, itself included, rather than snapshots."""
        self.start_lsn = lsn
        self.closed_lsn = lsn.decrement()
        self.position = ChangePosition.end_of(self.closed_lsn)

    @property
    def out(self) -> Lsn:
        """Last LSN up to which all changes are published."""
        return first_lsn_after(self.position).decrement()

    # -- tables ------------------------------------------------------------------------------------

    def of(self, table: TableName) -> TableRecord:
        """What is known of a table."""
        return self._tables.get(table, _NOTHING)

    def records(self) -> dict[TableName, TableRecord]:
        """What is known of all tables, at once; another thread may ask."""
        return self._tables.copy()

    def known(self) -> set[TableName]:
        """The tables of which a record is kept."""
        return {name for name, record in self._tables.items() if record.state in KEPT}

    def out_of_cut(self) -> Sequence[TableName]:
        """The tables that are not part of the cut, those that are gone included."""
        if self._out_of_cut is None:
            self._out_of_cut = [n for n, r in self._tables.items() if r.state in OUT_OF_CUT]
        return self._out_of_cut

    def unread(self) -> Sequence[TableName]:
        """The tables of whose snapshots a part is still to be read."""
        if self._unread is None:
            self._unread = [n for n, r in self._tables.items() if r.state in UNREAD]
        return self._unread

    def begun_again(self) -> set[TableName]:
        """Tables that the last record names, and that have begun anew since."""
        return self._begun & self._named

    def beginning_of(self, table: TableName) -> int:
        """How often a snapshot of a table was wanted since the start: which one its rows are of."""
        return self._beginnings[table]

    @property
    def has_moved(self) -> bool:
        """Whether a table is not as the checkpoint has it."""
        return bool(self._changed)

    def happened(
        self, table: TableName, event: TableEvent, known: TableRecord | None = None
    ) -> TableRecord:
        """Move a table to the state behind an event; its record goes with the next commit.

        Args:
            table: the table.
            event: what happened.
            known: what is known of it from now on; default: what was.

        Raises:
            ForbiddenTransition: that does not happen in the state it is in.
        """
        before = self.of(table)
        after = replace(known or before, state=state_after(before.state, event))
        if event is TableEvent.GONE:
            after = TableRecord()
        elif event is TableEvent.SNAPSHOT_WANTED:
            self._begun.add(table)
        is_beginning = event in {TableEvent.SNAPSHOT_WANTED, TableEvent.PART_WANTED}
        self._beginnings[table] += is_beginning
        if is_beginning or after.state not in UNREAD:
            after = replace(after, snapshot_paused=False)  # a pause is of one snapshot
        if after.state is not TableState.REREADING:
            after = replace(after, snapshot_where=None)
        self.keep(table, after)
        return after

    def keep(self, table: TableName, record: TableRecord) -> None:
        """Keep what is known of a table; its record goes with the next commit."""
        before = self.of(table)
        if before != record:
            self._tables[table] = record
            self.moves += (before.state in PUBLISHED) != (record.state in PUBLISHED)
            if before.state is not record.state:
                self._out_of_cut = self._unread = None
            if before.lacks_changes != record.lacks_changes:
                self._lacking = None
            if record.state in KEPT or before.state in KEPT:
                self._changed.add(table)

    def lacks_changes(self, table: str) -> bool:
        """Whether a table, by its whole name, lacks changes that went to the dead letters."""
        if self._lacking is None:
            self._lacking = {str(n) for n, r in self._tables.items() if r.lacks_changes}
        return table in self._lacking

    def note_lacking(self, table: str) -> None:
        """Keep that a table, by its whole name, lacks a change from here to its next snapshot."""
        for name, record in list(self._tables.items()):
            if str(name) == table and not record.lacks_changes:
                self.keep(name, replace(record, lacks_changes=True))

    def holds_events(self, table: TableName, instances: Iterable[str]) -> bool:
        """Whether a table's events are in its topic, by its record or those of its instances."""
        return self.of(table).state in PUBLISHED or self._older.follow(instances)

    def published_as(self) -> dict[int, TableName]:
        """Under which name each table is published, by its object id."""
        return {
            record.source_object_id: name
            for name, record in self._tables.items()
            if record.state in KEPT and record.source_object_id is not None
        }

    def adopt(self, table: TableName, instances: Iterable[str]) -> None:
        """Take over what an earlier release kept of a table's capture instances.

        Args:
            table: the table; one that has a record keeps that.
            instances: names of its instances, present or gone.
        """
        found = self._older.take(instances, self.out)
        if found is not None and self.of(table).state not in KEPT:
            self.keep(table, found)

    def older_left(self) -> list[str]:
        """Names of capture instances of an earlier release's records that no table has taken."""
        return self._older.left()

    # -- records -----------------------------------------------------------------------------------

    def database_record(self, closed_lsn: Lsn, now_ms: int) -> DatabaseCheckpoint:
        """The database's own record.

        Args:
            closed_lsn: last closed LSN once it is committed: inside a transaction the position does
                not tell it, and a restarted publisher repeats it in its progress records.
            now_ms: milliseconds UTC.
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
        """Keep why a signal was refused, for who asked: it goes with the next commits."""
        self._refused.setdefault(offset, []).append(reason)
        self._refused_ms = None

    def _refusals(self, now_ms: int) -> dict[str, str]:
        if self._refused_ms is None:
            self._refused_ms = now_ms
        elif now_ms - self._refused_ms > _REFUSALS_KEPT_MS:
            self._refused.clear()
        return {str(offset): "; ".join(reasons) for offset, reasons in self._refused.items()}

    def records_to_write(self, database: DatabaseCheckpoint, now_ms: int) -> Checkpoints:
        """The records of what changed since :meth:`written`, and the database's own.

        None takes a record away: of a table that is gone, and in a form of earlier releases.

        Args:
            database: the database's own.
            now_ms: milliseconds UTC.
        """
        records: dict[CheckpointKey | bytes, DatabaseCheckpoint | TableCheckpoint | None] = {
            CheckpointKey(self.server, self.database, name): self._checkpoint_of(name, now_ms)
            for name in sorted(self._changed, key=str)
        }
        records[CheckpointKey(self.server, self.database)] = database
        records.update(dict.fromkeys(self._older_keys))
        return records

    def written(self, closed_lsn: Lsn) -> None:
        """The records are committed."""
        self.closed_lsn = closed_lsn
        self.start_lsn = None
        self._changed.clear()
        self._begun.clear()
        self._named = set(self.out_of_cut())
        self._older_keys.clear()

    def _checkpoint_of(self, table: TableName, now_ms: int) -> TableCheckpoint | None:
        record = self.of(table)
        return record.to_checkpoint(self.position, now_ms) if record.state in KEPT else None


def known_identity(own: DatabaseCheckpoint) -> DatabaseIdentity:
    """The identity that a checkpoint was written with."""
    return DatabaseIdentity(own.database_guid, own.recovery_fork_guid, own.family_guid)


def _commit(own: DatabaseCheckpoint) -> CommitTime | None:
    if own.tran_end_time is None or own.tran_id is None:
        return None
    end_time = datetime.fromisoformat(own.tran_end_time)
    return CommitTime(own.position.commit_lsn, end_time, bytes.fromhex(own.tran_id))
