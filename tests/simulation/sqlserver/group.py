"""The servers of one database: a single one, or an availability group.

A group has one log, the primary's. Each replica has hardened a prefix of it and redone a shorter
one, which is what its readers see. A failover makes the prefix that the new primary has hardened
the whole log; what was behind it is lost, and the same LSNs come again.

The capture process runs at the primary only, and reads no further than what every replica of the
group has hardened, unless trace flag 1448 lets it pass asynchronous ones.

https://learn.microsoft.com/sql/database-engine/availability-groups/windows/replicate-track-change-data-capture-always-on-availability
"""

from __future__ import annotations

from copy import deepcopy
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
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
    last_commit_time: datetime | None = None


@dataclass(frozen=True, slots=True)
class Suspension:
    """What a secondary shows from the moment on at which its data movement was suspended.

    After a forced failover all remaining secondary databases are suspended. Existing connections
    remain usable; new ones are not allowed until data movement is resumed.

    See: Suspend an Availability Database; Perform a Forced Manual Failover of an Always On
    Availability Group.

    Attributes:
        fork_guid, fork_point: of the line that it is still on.
        end: LSN of the end of its log.
        kept: records that it has in common with the primary.
    """

    fork_guid: UUID
    fork_point: bytes | None
    end: bytes
    kept: int


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
        suspension: what it shows while its data movement is suspended.
    """

    name: str
    clock: ServerClock
    database_guid: UUID
    database: Database
    hardened: int = 0
    is_up: bool = True
    epoch: int = 0
    suspension: Suspension | None = None

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
        dates_back: whether later capture instances have earlier creation dates.
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
    dates_back: bool = False
    _capture: tuple[int, int, bool] | None = None

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
        is_list: bool = True,
    ) -> None:
        """sys.sp_cdc_enable_table.

        Args:
            captured: names of the captured columns; None for all.
            is_list: whether they are an operator's.
        """
        self.next_object += 1
        now = self.server.clock.local()
        record = EnableInstance(
            self.log.next_lsn(),
            now,
            name,
            self.next_object,
            table.object_id,
            is_ordered,
            captured,
            now - timedelta(hours=self.next_object) if self.dates_back else None,
            is_list,
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
        """A log scan session begins, once the one before has committed."""
        self.commit_scan()
        session = Session(self.next_session, self.server.clock.local())
        self.next_session += 1
        self.sessions.append(session)
        return session

    def end_scan(
        self,
        session: Session,
        *,
        marks_time: bool = False,
        maxtrans: int = 0,
        readable: int | None = None,
    ) -> None:
        """The session reads the log and ends; consecutive empty ones share a row.

        https://learn.microsoft.com/sql/relational-databases/system-dynamic-management-objects/change-data-capture-sys-dm-cdc-log-scan-sessions
        (empty_scan_count); that end_lsn is where an empty session came to is inferred.

        Args:
            readable: records that were there when it read; a time mark is at one that came since.
        """
        self.commit_scan()
        flushed = None if readable is None else len(self.log.records)
        self._capture = (readable or self.readable_end(), maxtrans or self.maxtrans, marks_time)
        self.commit_scan(flushed)
        self._note(session, self.database)

    def end_scan_early(self, session: Session) -> None:
        """As :meth:`end_scan`, but what it captured is committed later.

        sys.sp_cdc_scan commits after sp_replcmds, which fills the row of the view, in memory.
        """
        self.commit_scan()
        self._capture = (self.readable_end(), self.maxtrans, False)
        ahead = deepcopy(self.database)
        record = Capture(self.log.next_lsn(), self.server.clock.local(), *self._capture)
        ahead.capture(record, self.log.records)
        if not ahead.last_scan.transactions:
            self.commit_scan()
        self._note(session, ahead)

    def commit_scan(self, flushed: int | None = None) -> None:
        """What the newest session captured can be read."""
        if self._capture is not None:
            capture, self._capture = self._capture, None
            lsn, time = self.log.next_lsn(), self.server.clock.local()
            self.write(Capture(lsn, time, *capture, flushed))

    def _note(self, session: Session, database: Database) -> None:
        """Put into the session's row what it found."""
        found = database.last_scan
        session.end_time = self.server.clock.local()
        session.tran_count = found.transactions
        session.end_lsn = lsn_text(self.log.records[max(database.scanned - 1, 0)].lsn)
        if isinstance(found.last_commit, Commit):
            session.last_commit_lsn = lsn_text(found.last_commit.lsn)
            session.last_commit_time = found.last_commit.time
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
        if replica.is_up and replica.suspension is None:
            replica.hardened = min(len(self.log.records), replica.hardened + records)

    def redo(self, replica: Replica, records: int) -> None:
        """A secondary redoes more of what it has hardened."""
        if replica.is_up and replica.suspension is None:
            up_to = min(replica.hardened, replica.database.applied + records)
            replica.database.redo(self.log.records, up_to)

    def fail_over(self, to: int, fork: UUID | None, *, suspends: bool = False) -> None:
        """Another replica becomes the primary; with a fork GUID it is forced, and may lose.

        Args:
            suspends: whether the remaining secondaries stay as they are, until they are resumed.

        https://learn.microsoft.com/sql/database-engine/availability-groups/windows/perform-a-forced-manual-failover-of-an-availability-group-sql-server
        """
        replica = self.replicas[to]
        self.resume(replica)
        kept = replica.hardened
        for other in self.replicas if suspends else ():
            if other not in (replica, self.server) and other.suspension is None:
                self._suspend(other)
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

    def _suspend(self, replica: Replica) -> None:
        records = replica.hardened
        end = self.log.records[records - 1].lsn
        replica.suspension = Suspension(self.fork_guid, self.fork_point, end, records)

    def resume(self, replica: Replica) -> None:
        """A suspended secondary gives up what the primary has not got, and follows it again."""
        suspension, replica.suspension = replica.suspension, None
        if suspension is not None:
            replica.hardened = suspension.kept
            replica.database = Database(self.has_command_id)
            replica.database.redo(self.log.records, replica.hardened)
            replica.disconnect()

    def lose_scans(self) -> None:
        """A failover or a restart empties the view, and undoes a scan that is not committed."""
        self.sessions.clear()
        self._capture = None

    def _lose_connections(self) -> None:
        self.lose_scans()
        for replica in self.replicas:
            if replica.suspension is None:
                replica.disconnect()

    def _cut(self, kept: int) -> None:
        if kept == len(self.log.records):
            return
        self.lines.append(Line(list(self.log.records), kept))
        self.log.cut(kept)
        for replica in self.replicas:
            if replica.suspension is not None:
                common = min(replica.suspension.kept, kept)
                replica.suspension = replace(replica.suspension, kept=common)
                continue
            replica.hardened = min(replica.hardened, kept)
            if replica.database.applied > kept:
                database = Database(self.has_command_id)
                database.redo(self.log.records, replica.hardened)
                replica.database = database
