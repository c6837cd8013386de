"""What SQL Server refuses when the publisher changes the source, and what it gives up there."""

from __future__ import annotations

from typing import Final

from tailrace_publisher.errors.source import SourceError
from tailrace_schemas.position.lsn import Lsn
from tailrace_schemas.topics.topic_names import TableName

_FIX_OF_CHANGE: Final = {
    229: "let source.primary name a login in the role db_owner (tailrace grants)",
    22904: "let source.primary name a login in the role db_owner (tailrace grants)",
    3906: "let source.primary name the primary: this copy of the database is read-only",
    22939: "give the table a primary key, or create a capture instance without net changes",
    22943: "create a capture instance whose @captured_column_list has all columns of its index",
}
_BY_HAND: Final = (
    "create the second capture instance yourself (docs/schema-changes.md), or set"
    " tables.schema_changes of the table to follow"
)


class RotationRefused(SourceError):
    """SQL Server refuses to create or to drop a capture instance (tables.schema_change: rotate).

    The table continues with its present instance.

    Attributes:
        instance: the capture instance that was to be created or dropped.
    """

    heals = False

    def __init__(self, table: TableName, instance: str, doing: str, cause: SourceError) -> None:
        self.table = table
        self.instance = instance
        fix = _FIX_OF_CHANGE.get(cause.number)
        super().__init__(
            f"table {table}: SQL Server refuses to {doing} capture instance {instance}: {cause}."
            f" Fix: {_BY_HAND if fix is None else f'{fix}; or {_BY_HAND}'}",
            sqlstate=cause.sqlstate,
            number=cause.number,
        )


class CaptureGivenUp(SourceError):
    """Capture of a table was given up, because the source's log was nearly full (source.log_valve).

    Attributes:
        after: changes after this LSN are missing, until the table has a new snapshot. None if it
            was stopped before.
    """

    heals = False

    def __init__(self, table: TableName, percent: float, after: Lsn | None) -> None:
        self.after = after
        name = f"{table.schema}.{table.table}"
        missing = "since it was stopped, before that" if after is None else f"after {after}"
        super().__init__(
            f"source.log_valve gave up its capture: the source's transaction log was {percent:.0f}"
            f" % full and waited for the capture process. Changes {missing} are missing."
            f" Fix: once the log has room, tailrace enable {name}; the table is then in the cuts"
            " again from the LSN on at which its new snapshot ends"
        )


class LogValveRefused(SourceError):
    """The valve of the log cannot act (source.log_valve).

    The publisher continues, and so does everything that is captured.
    """

    heals = False
    of_one_table = False

    def __init__(self, problem: str, fix: str) -> None:
        super().__init__(f"source.log_valve cannot give up any table: {problem}. Fix: {fix}")

    @classmethod
    def of(cls, cause: SourceError) -> LogValveRefused:
        """Return the refusal by an error of the server."""
        fix = _FIX_OF_CHANGE.get(cause.number, "remove the cause, or source.log_valve")
        return cls(str(cause), fix)


class CleanupRefused(SourceError):
    """SQL Server refuses to remove change rows (cleanup.wait_for).

    The publisher continues, and the change rows stay.
    """

    heals = False
    of_one_table = False

    def __init__(self, cause: SourceError) -> None:
        fix = _FIX_OF_CHANGE.get(cause.number)
        super().__init__(
            f"SQL Server refuses to clean up a change table: {cause}."
            f" Fix: {'' if fix is None else f'{fix}; or '}set cleanup.wait_for to off",
            sqlstate=cause.sqlstate,
            number=cause.number,
        )
