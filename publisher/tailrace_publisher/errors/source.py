"""What SQL Server did not do, or what of it cannot be published."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar, Final

from tailrace_publisher.errors.base import PublisherError
from tailrace_schemas.position.lsn import Lsn
from tailrace_schemas.topics.topic_names import TableName

_NEVER_HEALS: Final = frozenset({207, 208, 916})
"""Invalid column or object name: a statement of ours does not fit the database. And a login that
has no user in the database."""


class SourceError(PublisherError):
    """SQL Server did not do what was asked.

    Attributes:
        sqlstate: five characters of the ODBC diagnostic record, empty when the error is ours.
        number: SQL Server's native error number, 0 when there is none.
    """

    heals: ClassVar[bool] = True

    def __init__(self, message: str, *, sqlstate: str = "", number: int = 0) -> None:
        self.sqlstate = sqlstate
        self.number = number
        super().__init__(message)

    @property
    def may_heal(self) -> bool:
        """Whether waiting may help: of what the source says, mostly."""
        return self.heals and self.number not in _NEVER_HEALS


class SourceUnavailable(SourceError):
    """The server cannot be reached, or broke the connection off: waiting may help."""

    retryable = True
    of_one_table = False


class SourceBusy(SourceError):
    """A deadlock, a lock timeout or a query timeout: the same statement may succeed next time."""

    retryable = True
    of_one_table = False


class SourceBehind(SourceError):
    """The connection that reads change rows sees less than the one that planned the window.

    They are at different replicas: a page would end early and look like the last one. Nothing has
    moved, and starting again asks both anew.

    Attributes:
        instance: the capture instance whose page was refused.
        seen: newest LSN that the connection sees; None when it sees none.
        needed: the window's end.
    """

    retryable = True
    of_one_table = False

    def __init__(self, instance: str, seen: Lsn | None, needed: Lsn) -> None:
        self.instance = instance
        self.seen = seen
        self.needed = needed
        super().__init__(
            f"capture instance {instance}: change rows up to {needed} are to be read, but the"
            f" reading connection sees them up to {seen} (sys.fn_cdc_get_max_lsn): it is at a"
            " replica that is behind the one of the other connection. It is tried again; if it"
            " lasts, let source.host name one replica, or set source.application_intent: ReadWrite"
        )


class SnapshotTooLarge(SourceError):
    """A table without columns that tell its rows apart does not fit into one chunk.

    Attributes:
        table: the table.
        rows: rows that were read until then.
        size_max: bytes that it may take in memory.
    """

    heals = False

    def __init__(self, table: TableName, rows: int, size_max: int) -> None:
        self.table = table
        self.rows = rows
        self.size_max = size_max
        super().__init__(
            f"table {table} has no primary key, and no unique index over columns that are NOT NULL"
            f" is named for its capture instance: its snapshot must be read at once, and {rows} of"
            f" its rows took more than snapshot.memory_mb ({size_max // 1_000_000} MB). Give it a"
            " primary key or such an index and enable a capture instance with it"
            " (sys.sp_cdc_enable_table @index_name), or raise snapshot.memory_mb, or let it begin"
            " with the changes from now on (snapshot.mode: no_data)"
        )


class LoginRefused(SourceError):
    """User or password are wrong, or the account may not log in."""

    heals = False
    of_one_table = False


class DatabaseUnknown(SourceError):
    """The database does not exist, or the login may not open it.

    A server says the same of a database that it is moving, restoring or attaching.
    """

    of_one_table = False


class EncryptionRefused(SourceError):
    """Server and client do not agree on TLS, or the certificate is not trusted."""

    of_one_table = False


class PermissionMissing(SourceError):
    """A statement was refused for want of a permission."""

    heals = False


class StillStopped(SourceError):
    """A table was stopped before this start, and nothing says that it could go on now.

    Attributes:
        kind: class of the error that it was stopped for; empty where it is not known.
        reason: its text.
    """

    heals = False

    def __init__(self, reason: str | None) -> None:
        self.kind, _, self.reason = (
            reason or ": not known, an earlier version did not keep it"
        ).partition(": ")
        super().__init__(self.reason)


class TableRenamed(SourceError):
    """A table that was published has another name now (sp_rename, ALTER SCHEMA .. TRANSFER).

    Attributes:
        was: under which it was published.
        now: what it is called.
    """

    heals = False

    def __init__(self, was: TableName, now: TableName) -> None:
        self.was = was
        self.now = now
        super().__init__(
            f"table {now} is the one that was published as {was} (the same object id): under its"
            " new name it would get a new topic. Give it its old name again; or go on under the"
            " old topic with tables.on_rename: keep_topic; or take a snapshot into a new topic:"
            f" tailrace snapshot '{now.schema}.{now.table}'"
        )


class PositionExpired(SourceError):
    """Change rows after our position were removed before they were read: a gap.

    Attributes:
        instance: the capture instance.
        requested: LSN from which rows are still needed.
        minimum: lowest LSN that the capture instance holds; None where it is not known yet.
        disabled: instances that held the rows and were disabled; empty when cleanup took them.
    """

    heals = False

    def __init__(
        self, instance: str, requested: Lsn, minimum: Lsn | None, disabled: Sequence[str] = ()
    ) -> None:
        self.instance = instance
        self.requested = requested
        self.minimum = minimum
        self.disabled = tuple(disabled)
        begins = (
            f"holds its table's changes from {minimum} on"
            if minimum is not None
            else "was disabled, and no other is recognised by the capture process yet"
        )
        text = (
            f"capture instance {instance}: rows after {requested} are needed but its change table"
            f" starts at {minimum} (sys.fn_cdc_get_min_lsn): the cleanup job has removed rows that"
            " were never published. Take a new snapshot of its table (tailrace snapshot, or"
            " snapshot.on_gap: snapshot),"
            " and raise the retention with sys.sp_cdc_change_job @job_type = N'cleanup',"
            " @retention = <minutes>"
        )
        if disabled:
            text = (
                f"capture instance {instance}: rows after {requested} are needed but it {begins}:"
                f" {', '.join(disabled)} was disabled (sys.sp_cdc_disable_table) before its rows"
                " up to there were published. Take a new snapshot of its table (tailrace snapshot,"
                " or snapshot.on_gap: snapshot). Disable an older instance only after the closed"
                " LSN (tailrace status) has passed the start of the newer one"
            )
        super().__init__(text)


class CaptureInstanceGone(SourceError):
    """A capture instance that is being read was disabled.

    Starting again reads the catalog again; a table without a capture instance is then left out,
    loudly, and the others go on.

    Attributes:
        instance: the capture instance.
    """

    retryable = True
    of_one_table = False

    def __init__(self, instance: str, message: str = "") -> None:
        self.instance = instance
        super().__init__(
            message
            or f"capture instance {instance} is gone (sys.sp_cdc_disable_table): enable the table"
            " again with sys.sp_cdc_enable_table and take a new snapshot of it, or leave it out"
            " with tables.exclude"
        )


class DatabaseReplaced(SourceError):
    """The database was restored or replaced: its LSNs do not continue those already published."""

    heals = False
    of_one_table = False


class LsnWentBackwards(SourceError):
    """The newest LSN of the database is older than our position: it was restored or replaced."""

    heals = False
    of_one_table = False


class ReplicaBehind(SourceError):
    """A readable secondary has not redone yet what was published: waiting helps, if not forever.

    It may be that the primary was restored, and the secondary with it.
    """

    waited_for_s = 3600.0
    retryable = True
    of_one_table = False


class OrderUnknown(SourceError):
    """A transaction moves keys among rows, and its change rows do not tell in which order.

    Attributes:
        table: database.schema.table.
        position: of the delete whose order is not known.
    """

    heals = False

    def __init__(self, table: str, position: str) -> None:
        self.table = table
        self.position = position
        super().__init__(
            f"table {table}, position {position}: a transaction moves keys from row to row, and"
            " without command ids nobody can tell whether this delete comes before the insert of"
            " its key or after it. Take a new snapshot of the table (tailrace snapshot); read"
            " change tables themselves (source.read_mode: direct), which have __$command_id on"
            " every server that Microsoft still mends"
        )
