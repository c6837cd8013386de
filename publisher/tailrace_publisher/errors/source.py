"""Errors of SQL Server, and data of the source that cannot be published."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar, Final

from tailrace_publisher.errors.base import PublisherError
from tailrace_schemas.position.lsn import Lsn
from tailrace_schemas.topics.topic_names import TableName

_NEVER_HEALS: Final = frozenset({207, 208, 916})
"""Invalid column or object name: our statement does not fit the database. 916: the login has no
user in the database."""


class SourceError(PublisherError):
    """SQL Server did not execute a statement.

    Attributes:
        sqlstate: five characters of the ODBC diagnostic record, empty if the error is ours.
        number: SQL Server's native error number, 0 if there is none.
    """

    heals: ClassVar[bool] = True

    def __init__(self, message: str, *, sqlstate: str = "", number: int = 0) -> None:
        self.sqlstate = sqlstate
        self.number = number
        super().__init__(message)

    @property
    def may_heal(self) -> bool:
        """Whether waiting may help, which is so for most errors of the source."""
        return self.heals and self.number not in _NEVER_HEALS


class SourceUnavailable(SourceError):
    """The server cannot be reached, or closed the connection: waiting may help."""

    retryable = True
    of_one_table = False


class SourceBusy(SourceError):
    """A deadlock, a lock timeout or a query timeout: the same statement may succeed next time."""

    retryable = True
    of_one_table = False


class SourceBehind(SourceError):
    """The connection that reads change rows sees less than the one that planned the window.

    They are at different replicas, so a page would end early and look like the last one. Nothing
    was published, and a new start queries both again.

    Attributes:
        instance: the capture instance whose page was refused.
        seen: LSN up to which the connection sees all commits; None if it sees none.
        needed: the last LSN of the window, or its last commit.
    """

    retryable = True
    of_one_table = False

    def __init__(self, instance: str, seen: Lsn | None, needed: Lsn) -> None:
        self.instance = instance
        self.seen = seen
        self.needed = needed
        super().__init__(
            f"capture instance {instance}: change rows up to {needed} are to be read, but the"
            f" reading connection sees them up to {seen} (cdc.lsn_time_mapping): its replica"
            " lags that of the other connection. The publisher retries. Fix: if the error persists,"
            " name one replica in source.host, or set source.application_intent: ReadWrite"
        )


class SnapshotTooLarge(SourceError):
    """A table without columns that distinguish its rows does not fit into one chunk.

    Attributes:
        rows: rows read up to the limit.
        size_max: the limit of its memory, bytes.
    """

    heals = False

    def __init__(self, table: TableName, rows: int, size_max: int) -> None:
        self.table = table
        self.rows = rows
        self.size_max = size_max
        super().__init__(
            f"table {table} has no primary key, and its capture instance names no unique index over"
            f" NOT NULL columns: its snapshot must be read at once, and {rows} of its rows exceed"
            f" snapshot.memory_mb ({size_max // 1_000_000} MB). Fix: give the table a primary key"
            " or such an index and enable a capture instance with it"
            " (sys.sp_cdc_enable_table @index_name), or raise snapshot.memory_mb, or start"
            " with the changes from now on (snapshot.mode: no_data)"
        )


class UnreadableKey(SourceError):
    """A snapshot cannot resume after a key: its text does not give the stored bytes again."""

    heals = False

    def __init__(self, table: TableName, columns: Sequence[str]) -> None:
        self.table = table
        self.columns = tuple(columns)
        super().__init__(
            f"table {table}: a value of key column {', '.join(columns)} has bytes that are no"
            " character of its code page, so its snapshot cannot resume after it. Fix: correct the"
            " value, or start with the changes from now on (snapshot.mode: no_data)"
        )


class LoginRefused(SourceError):
    """User or password are wrong, or the account may not log in."""

    heals = False
    of_one_table = False


class DatabaseUnknown(SourceError):
    """The database does not exist, or the login may not open it.

    A server reports the same for a database that it is moving, restoring or attaching.
    """

    of_one_table = False


class EncryptionRefused(SourceError):
    """Server and client do not agree on TLS, or the certificate is not trusted."""

    of_one_table = False


class PermissionMissing(SourceError):
    """A statement was refused because the login lacks a permission."""

    heals = False


class ValuesHidden(SourceError):
    """The server shows the login masks, fewer rows or cipher text instead of a table's values.

    Such values are never published and never compared.
    """

    heals = False

    def __init__(self, table: TableName, what: str) -> None:
        self.table = table
        super().__init__(f"table {table}{what}")


class StillStopped(SourceError):
    """A table was stopped before this start, and nothing shows that it could continue now.

    Attributes:
        kind: class of the error that stopped it; empty if unknown.
        reason: the text of that error.
    """

    heals = False

    def __init__(self, reason: str | None) -> None:
        self.kind, _, self.reason = (
            reason or ": not known, an earlier version did not store it"
        ).partition(": ")
        super().__init__(self.reason)

    def is_by(self, kind: type[Exception]) -> bool:
        """Return whether an error of a class stopped the table."""
        return self.kind == kind.__name__


class TableRenamed(SourceError):
    """A published table has another name now (sp_rename, ALTER SCHEMA .. TRANSFER).

    Attributes:
        was: the name under which it was published.
        now: the name that it has.
    """

    heals = False

    def __init__(self, was: TableName, now: TableName) -> None:
        self.was = was
        self.now = now
        super().__init__(
            f"table {now} was published as {was} (the same object id): under its new name it would"
            " get a new topic. Fix: rename it back; or continue with the old topic"
            " (tables.on_rename: keep_topic); or take a snapshot into a new topic:"
            f" tailrace snapshot '{now.schema}.{now.table}'"
        )


class PositionExpired(SourceError):
    """Change rows after the publisher's position were removed before they were read: a gap.

    Attributes:
        requested: LSN from which rows are still needed.
        minimum: lowest LSN that the capture instance holds; None if unknown.
        disabled: disabled instances that held the rows. Empty if cleanup removed them.
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
            " were never published. Fix: take a new snapshot of its table (tailrace snapshot, or"
            " snapshot.on_gap: snapshot),"
            " and raise the retention with sys.sp_cdc_change_job @job_type = N'cleanup',"
            " @retention = <minutes>"
        )
        if disabled:
            text = (
                f"capture instance {instance}: rows after {requested} are needed but it {begins}:"
                f" {', '.join(disabled)} was disabled (sys.sp_cdc_disable_table) before its rows up"
                " to there were published. Fix: take a new snapshot of its table (tailrace"
                " snapshot, or snapshot.on_gap: snapshot). Disable an older instance only after the"
                " closed LSN (tailrace status) has passed the start of the newer one"
            )
        super().__init__(text)


class SchemaChanged(SourceError):
    """The columns of a captured table changed, and tables.schema_change is fail."""

    heals = False

    def __init__(self, table: TableName, change: str) -> None:
        self.table = table
        self.change = change
        super().__init__(
            f"table {table}: its columns changed ({change}), and tables.schema_change is fail. Fix:"
            " let its only capture instance have the columns of today (docs/schema-changes.md), or"
            " set tables.schema_changes of the table to follow; then take a new snapshot:"
            f" tailrace snapshot '{table.schema}.{table.table}'"
        )


class CaptureInstanceGone(SourceError):
    """A capture instance that is being read was disabled.

    A new start reads the catalog again. It then logs and leaves out a table without a capture
    instance, and the other tables continue.
    """

    retryable = True
    of_one_table = False

    def __init__(self, instance: str, message: str = "") -> None:
        self.instance = instance
        super().__init__(
            message
            or f"capture instance {instance} was disabled (sys.sp_cdc_disable_table). Fix: enable"
            " the table again with sys.sp_cdc_enable_table and take a new snapshot of it, or leave"
            " it out with tables.exclude"
        )


class DatabaseReplaced(SourceError):
    """The database was restored or replaced: its LSNs do not continue those already published."""

    heals = False
    of_one_table = False


class LsnWentBackwards(SourceError):
    """The newest LSN of the database is before the position: it was restored or replaced."""

    heals = False
    of_one_table = False


class ReplicaBehind(SourceError):
    """A readable secondary has not redone yet what was published: waiting usually helps.

    It does not if the primary was restored, and the secondary with it.
    """

    waited_for_s = 3600.0
    retryable = True
    of_one_table = False


class OrderUnknown(SourceError):
    """A transaction moves keys among rows, and its change rows do not show in which order.

    Attributes:
        position: of the delete whose order is unknown.
    """

    heals = False

    def __init__(self, table: str, position: str) -> None:
        self.table = table
        self.position = position
        super().__init__(
            f"table {table}, position {position}: a transaction moves keys from row to row, and"
            " without command ids it is unknown whether this delete comes before the insert of"
            " its key or after it. Fix: take a new snapshot of the table (tailrace snapshot), and"
            " read the change tables directly (source.read_mode: direct): they have __$command_id"
            " on every server that Microsoft still supports"
        )
