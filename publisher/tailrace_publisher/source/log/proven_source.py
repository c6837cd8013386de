"""The one way to change a source: on a connection that is proven to hold the published history.

Cleanup, and the creation and the drop of a capture instance, run on a connection of their own. It
may be at another server than the one that is read. By then the database may have failed over with
loss of data, or may have been restored. ``source.primary`` may also name a copy. LSNs come again
there, with changes that nobody has published. So the connection that will carry out a change proves
first that it holds what was published, by two facts:

- The family and the recovery fork, as they are compared at a start.
- The commit that was published last: its LSN, its time and its transaction id. Histories that share
  a commit share everything before it. What a lake has, and what cleanup passes, is before it.

While a session is connected, its database is not replaced: a restore needs exclusive access, and a
failover ends all connections (See: RESTORE Statements, and Active Secondaries: Readable Secondary
Replicas). The batch of each change still looks at both facts again, because that costs nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final, Self

from tailrace_publisher.change.instance import CaptureInstance
from tailrace_publisher.errors import HistoryUnproven, SourceError
from tailrace_publisher.ports import Connection
from tailrace_publisher.source.log.commit_times import CommitTime
from tailrace_publisher.source.log.identity import (
    DatabaseIdentity,
    continuity,
    visible_identity,
)
from tailrace_publisher.source.log.loss import other_commit, other_database
from tailrace_publisher.source.log.queries import is_read_only, server_name

UNPROVEN: Final = 51_001
INSTANCE_GONE: Final = 51_002
"""Numbers of the errors by which a batch ends before its change (See: THROW, error_number)."""

_QUIET: Final = "SET DEADLOCK_PRIORITY LOW; SET TRANSACTION ISOLATION LEVEL READ COMMITTED; "
"""Of two that deadlock, the change is the victim, not a writer of the source. DDL is refused in a
transaction with snapshot isolation, which the session may have (3964).

See: SET DEADLOCK_PRIORITY; SET TRANSACTION ISOLATION LEVEL, remarks on SNAPSHOT.
"""
# Each batch ends before its change if it is not so.
# See the pages of cdc.lsn_time_mapping and of THROW (Transact-SQL). See: cdc.lsn_time_mapping
_HAS_COMMIT: Final = (
    "IF NOT EXISTS (SELECT 1 FROM cdc.lsn_time_mapping WHERE start_lsn = ?"
    " AND tran_end_time = CAST(? AS datetime) AND tran_id = ?)"
    f" THROW {UNPROVEN}, N'The published commit is gone.', 1; "
)
# See: sys.database_recovery_status, on family and fork of recovery
_IS_SAME_LINE: Final = (
    "IF NOT EXISTS (SELECT 1 FROM sys.database_recovery_status WHERE database_id = DB_ID()"
    " AND family_guid = ? AND recovery_fork_guid = ?)"
    f" THROW {UNPROVEN}, N'The database is another one.', 1; "
)
# See: cdc.change_tables (Transact-SQL), where object_id is the change table's
_HAS_INSTANCE: Final = (
    "IF NOT EXISTS (SELECT 1 FROM cdc.change_tables WHERE object_id = ? AND capture_instance = ?)"
    f" THROW {INSTANCE_GONE}, N'The capture instance is gone.', 1; "
)


@dataclass(frozen=True, slots=True)
class PublishedHistory:
    """What was published, as far as it recognises a database.

    Attributes:
        identity: of the database that was read.
        commit: the commit at the newest position in a committed checkpoint.
        ended: the commit's time, as text that is cast to datetime.
        tran_id: of the commit; 0x00 in an entry that only marks time.
    """

    database: str
    identity: DatabaseIdentity
    commit: CommitTime
    ended: str
    tran_id: bytes

    @classmethod
    def of(
        cls, database: str, identity: DatabaseIdentity, commit: CommitTime | None
    ) -> Self | None:
        """Return the history; None if no commit of it is known, so that nothing proves it."""
        if commit is None or commit.end_time_text is None or commit.tran_id is None:
            return None
        return cls(database, identity, commit, commit.end_time_text, commit.tran_id)


class ProvenSource:
    """A connection whose database holds the published history; what changes a source takes it.

    Raises:
        HistoryUnproven: the database does not hold it, or nothing shows that it does.
        SourceError: the server did not answer.
    """

    def __init__(self, connection: Connection, history: PublishedHistory) -> None:
        self.connection = connection
        self._history = history
        found = self._prove()
        guids = found.family_guid, found.recovery_fork_guid
        commit = history.commit.commit_lsn.to_bytes(), history.ended, history.tran_id
        self._guard = _HAS_COMMIT + (_IS_SAME_LINE if all(guids) else "")
        self._of_guard = (*commit, *(guids if all(guids) else ()))

    def change(
        self, statement: str, *parameters: Any, of: Sequence[CaptureInstance]
    ) -> list[Any] | None:
        """Carry out a change, unless the database turns out to be another one.

        Args:
            statement: the statements of the change; they are sent once.
            of: capture instances that it is about, which must be the ones that were compared.

        Returns:
            The rows of the last result set; None if an instance is gone, and nothing was changed.

        Raises:
            HistoryUnproven: the database does not hold the published history. Nothing was changed.
            SourceError: the server refused, or a lock was not granted in time.
        """
        of_instances = [fact for i in of for fact in (i.object_id, i.name)]
        try:
            sets = self.connection.query_sets(
                _QUIET + self._guard + _HAS_INSTANCE * len(of) + statement,
                *self._of_guard,
                *of_instances,
                *parameters,
            )
        except SourceError as error:
            if error.number == INSTANCE_GONE:
                return None
            if error.number == UNPROVEN:
                raise self._unproven(str(error)) from error
            raise
        return sets[-1] if sets else []

    def _prove(self) -> DatabaseIdentity:
        """Compare the database with what was published.

        Raises:
            HistoryUnproven: the database does not hold it, or nothing shows that it does.
        """
        connection, history = self.connection, self._history
        if is_read_only(connection):
            raise self._unproven("this copy of the database is read-only")
        found = visible_identity(connection, warns=False)
        commit = history.commit
        entry = continuity(connection, commit.commit_lsn)
        has_commit = entry.is_of(commit)
        differs = other_database(history.identity, found, commit.commit_lsn, has_commit=has_commit)
        differs = differs or other_commit(commit, entry)
        if differs is None and not has_commit:
            differs = f"cleanup has removed the entry of the commit at {commit.commit_lsn}"
        if differs is not None:
            raise self._unproven(differs)
        return found

    def _unproven(self, differs: str) -> HistoryUnproven:
        return HistoryUnproven(server_name(self.connection), self._history.database, differs)
