"""The servers of one database: a single one, or an availability group.

A group has one log, the primary's. Each replica has hardened a prefix of it and redone a shorter
one, which is what its readers see. A failover makes the prefix that the new primary has hardened
the whole log; what was behind it is lost, and the same LSNs come again.

The capture process runs at the primary only, and reads no further than what every replica of the
group has hardened, unless trace flag 1448 lets it pass asynchronous ones.

https://learn.microsoft.com/sql/database-engine/availability-groups/windows/replicate-track-change-data-capture-always-on-availability
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from uuid import UUID

from tests.simulation.sqlserver.clock import ServerClock
from tests.simulation.sqlserver.database import Database
from tests.simulation.sqlserver.log import (
    LSN_BYTES,
    Capture,
    Commit,
    EnableInstance,
    Log,
    Record,
    lsn_text,
)
from tests.simulation.sqlserver.rows import Table


@dataclass(slots=True)
class Session:
    """A row of sys.dm_cdc_log_scan_sessions.

    https://learn.microsoft.com/sql/relational-databases/system-dynamic-management-views/change-data-capture-sys-dm-cdc-log-scan-sessions
    """

    session_id: int
    start_time: datetime
    end_time: datetime | None = None
    tran_count: int = 0
    empty_scan_count: int = 0
    error_count: int = 0
    latency: int = 0
    end_lsn: str | None = None
    last_commit_lsn: str | None = None


@dataclass(slots=True)
class Replica:
    """One server with a copy of the database.

    Attributes:
        name: @@SERVERNAME.
        clock: its clock.
        database_guid: of its copy: a secondary is made by a restore, so it has its own (inferred
            from the documentation of sys.database_recovery_status).
        database: what its readers see.
        hardened: records of the log on its disk; at the primary all.
        is_up: whether it takes connections.
        epoch: changes when all its connections are lost.
    """

    name: str
    clock: ServerClock
    database_guid: UUID
    database: Database
    hardened: int = 0
    is_up: bool = True
    epoch: int = 0

    def disconnect(self) -> None:
        """End all connections."""
        self.epoch += 1


@dataclass(slots=True)
class Line:
    """A line of recovery that was left: its records, to judge what was published from it."""

    records: list[Record]
    kept: int


@dataclass(slots=True)
class Group:
    """The servers, their log and the scan sessions of the capture process.

    Attributes:
        replicas: all of them; a single server is a group of one.
        primary: index of the one that takes changes.
        log: the primary's log.
        family_guid: of the database and all its copies.
        fork_guid: of the line of recovery.
        fork_point: LSN where the line began; None on the first.
        passes_async: trace flag 1448.
        maxtrans: of the capture job.
        database_name: DB_NAME().
        sessions: newest last; lost by a restart and a failover.
        lines: lines that were left, oldest first.
    """

    replicas: list[Replica]
    log: Log
    family_guid: UUID
    fork_guid: UUID
    primary: int = 0
    fork_point: bytes | None = None
    passes_async: bool = False
    maxtrans: int = 500
    has_command_id: bool = True
    database_name: str = "shop"
    sessions: list[Session] = field(default_factory=list)
    lines: list[Line] = field(default_factory=list)
    next_session: int = 1
    next_object: int = 100

    @property
    def server(self) -> Replica:
        """The primary."""
        return self.replicas[self.primary]

    @property
    def database(self) -> Database:
        """The primary's state."""
        return self.server.database

    def write(self, record: Record) -> None:
        """Append a record at the primary, which sees it at once."""
        self.log.append(record)
        server = self.server
        server.hardened = len(self.log.records)
        server.database.redo(self.log.records, server.hardened)

    def enable(
        self,
        name: str,
        table: Table,
        *,
        is_ordered: bool = True,
        captured: frozenset[str] | None = None,
    ) -> None:
        """sys.sp_cdc_enable_table.

        Args:
            captured: names of the captured columns; None for all.
        """
        self.next_object += 1
        record = EnableInstance(
            self.log.next_lsn(),
            self.server.clock.local(),
            name,
            self.next_object,
            table.object_id,
            is_ordered,
            captured,
        )
        self.write(record)

    def captured(self) -> bytes:
        """The newest LSN in the mapping."""
        mapping = self.database.mapping
        return mapping[-1].start_lsn if mapping else bytes(LSN_BYTES)

    def readable_end(self) -> int:
        """How many records the log reader may read.

        A secondary that is down holds it back, too, until it is taken out of the group.
        """
        if self.passes_async:
            return len(self.log.records)
        return min(replica.hardened for replica in self.replicas)

    # -- the capture process -----------------------------------------------------------------------

    def begin_scan(self) -> Session:
        """A log scan session begins."""
        session = Session(self.next_session, self.server.clock.local())
        self.next_session += 1
        self.sessions.append(session)
        return session

    def end_scan(self, session: Session, *, marks_time: bool = False, maxtrans: int = 0) -> None:
        """The session reads the log and ends; consecutive empty ones share a row.

        https://learn.microsoft.com/sql/relational-databases/system-dynamic-management-views/change-data-capture-sys-dm-cdc-log-scan-sessions
        (empty_scan_count); that end_lsn is where an empty session came to is inferred.
        """
        clock = self.server.clock
        readable = self.readable_end()
        bound = maxtrans or self.maxtrans
        scanned = self.database.scanned
        self.write(Capture(self.log.next_lsn(), clock.local(), readable, bound, marks_time))
        found = self.database.last_scan
        session.end_time = clock.local()
        session.tran_count = found.transactions
        read_to = max(self.database.scanned, scanned) - 1
        session.end_lsn = lsn_text(self.log.records[max(read_to, 0)].lsn)
        if isinstance(found.last_commit, Commit):
            session.last_commit_lsn = lsn_text(found.last_commit.lsn)
            behind = session.end_time - found.last_commit.time
            session.latency = max(0, round(behind.total_seconds()))
            return
        session.empty_scan_count = 1
        before = self.sessions[-2] if len(self.sessions) > 1 else None
        if before is not None and before.empty_scan_count and self.sessions[-1] is session:
            before.empty_scan_count += 1
            before.end_lsn = session.end_lsn
            # Whether the shared row keeps the times of the first is not documented: it does here.
            self.sessions.pop()

    # -- replicas ----------------------------------------------------------------------------------

    def ship(self, replica: Replica, records: int) -> None:
        """A secondary hardens more of the log."""
        if replica.is_up:
            replica.hardened = min(len(self.log.records), replica.hardened + records)

    def redo(self, replica: Replica, records: int) -> None:
        """A secondary redoes more of what it has hardened."""
        if replica.is_up:
            up_to = min(replica.hardened, replica.database.applied + records)
            replica.database.redo(self.log.records, up_to)

    def fail_over(self, to: int, fork: UUID | None) -> None:
        """Another replica becomes the primary; with a fork GUID it is forced, and may lose.

        https://learn.microsoft.com/sql/database-engine/availability-groups/windows/perform-a-forced-manual-failover-of-an-availability-group-sql-server
        """
        replica = self.replicas[to]
        kept = replica.hardened
        if fork is not None:
            self.fork_guid = fork
            self.fork_point = self.log.records[kept - 1].lsn
        self._cut(kept)
        self.primary = to
        replica.is_up = True
        replica.database.redo(self.log.records, kept)
        self._lose_connections()

    def restore(self, kept: int, guid: UUID | None, fork: UUID) -> None:
        """A backup is restored over the database, with KEEP_CDC.

        The GUID of the copy stays when the database exists already; whether the fork is to be seen
        depends on the way it is done, so a scenario has both (inferred).

        https://learn.microsoft.com/sql/relational-databases/system-catalog-views/sys-database-recovery-status-transact-sql
        """
        self._cut(kept)
        if guid is not None:
            self.server.database_guid = guid
            self.fork_guid = fork
            self.fork_point = self.log.end
        self._lose_connections()

    def _lose_connections(self) -> None:
        """A failover or a restart empties the view of the sessions, too."""
        self.sessions.clear()
        for replica in self.replicas:
            replica.disconnect()

    def _cut(self, kept: int) -> None:
        if kept == len(self.log.records):
            return
        self.lines.append(Line(list(self.log.records), kept))
        self.log.cut(kept)
        for replica in self.replicas:
            replica.hardened = min(replica.hardened, kept)
            if replica.database.applied > kept:
                database = Database(self.has_command_id)
                database.redo(self.log.records, replica.hardened)
                replica.database = database
