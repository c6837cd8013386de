"""What is published: the position, the closed LSN and the state of each table.

The state changes in memory as rows are sent. It becomes durable in the Kafka transaction that holds
those rows. What was not committed is lost with the session.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final

from tailrace_publisher.change.ranges import first_lsn_after
from tailrace_publisher.checkpoint.reader import Stored
from tailrace_publisher.daemon.tables.table_record import OlderInstances, TableRecord
from tailrace_publisher.daemon.tables.table_records import TableRecords
from tailrace_publisher.daemon.tables.table_state import PUBLISHED, STORED
from tailrace_publisher.deliver.delivery import Checkpoints
from tailrace_publisher.errors import CheckpointError
from tailrace_publisher.source.log.commit_times import CommitTime
from tailrace_publisher.source.log.identity import DatabaseIdentity
from tailrace_publisher.source.log.proven_source import PublishedHistory
from tailrace_schemas.position.change_position import ChangePosition
from tailrace_schemas.position.lsn import Lsn
from tailrace_schemas.records.checkpoint import CheckpointKey, DatabaseCheckpoint, TableCheckpoint
from tailrace_schemas.topics.topic_names import TableName

_REFUSALS_KEPT_MS: Final = 60_000
"""How long a requester can read why; each commit writes the records, so they must stay small."""


@dataclass(slots=True)
class PublisherState(TableRecords):
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
        map_number: 0 in records of this form; None in one of a release up to 0.2.
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
    _refused: dict[int, list[str]] = field(default_factory=dict)
    _refused_ms: int | None = None
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
        state.tables_written()
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

    @property
    def history(self) -> PublishedHistory | None:
        """What proves that a database holds what was published; None before its first commit."""
        return PublishedHistory.of(self.database, self.identity, self.commit)

    def holds_events(self, table: TableName, instances: Iterable[str]) -> bool:
        """Return whether a topic holds the table's events, by its record or its instances'."""
        return self.of(table).state in PUBLISHED or self._older.follow(instances)

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
        self.tables_written()
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
