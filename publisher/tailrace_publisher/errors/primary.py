"""What SQL Server refuses when the publisher changes the source."""

from __future__ import annotations

from typing import Final

from tailrace_publisher.errors.base import PublisherError
from tailrace_publisher.errors.source import SourceError
from tailrace_schemas.topics.topic_names import TableName

_FIX_OF_CHANGE: Final = {
    229: "let source.primary name a login in the role db_owner (tailrace grants)",
    15247: "let source.primary name a login in the role db_owner (tailrace grants)",
    22904: "let source.primary name a login in the role db_owner (tailrace grants)",
    3906: "let source.primary name the primary: this copy of the database is read-only",
    22939: "give the table a primary key, or create a capture instance without net changes",
    22943: "create a capture instance whose @captured_column_list has all columns of its index",
}
_PROVEN: Final = (
    "let source.primary.host name the primary of the database that source.host reads. If that"
    " database was restored, or failed over with loss of data, stop the publisher and run tailrace"
    " accept-database"
)
_BY_HAND: Final = (
    "create the second capture instance yourself (docs/schema-changes.md), or set"
    " tables.schema_changes of the table to follow"
)


class HistoryUnproven(SourceError):
    """A source is not changed, because nothing proves that it holds what was published.

    The publisher continues, and nothing was changed there.

    Attributes:
        server: the server that the change was sent to, by its own name.
        differs: what is not as it was published.
    """

    heals = False
    of_one_table = False

    def __init__(self, server: str, database: str, differs: str) -> None:
        self.server = server
        self.differs = differs
        super().__init__(
            f"SQL Server {server}, database {database}: it is not proven to hold what was"
            f" published, so nothing is changed there: {differs}. Fix: {_PROVEN}"
        )


class RotationRefused(SourceError):
    """A capture instance cannot be created or dropped (tables.schema_change: rotate).

    The table continues with its present instance.

    Attributes:
        instance: the capture instance that was to be created or dropped.
    """

    heals = False

    def __init__(self, table: TableName, instance: str, doing: str, cause: PublisherError) -> None:
        self.table = table
        self.instance = instance
        fix = _fix_of(cause)
        super().__init__(
            f"table {table}: the publisher cannot {doing} capture instance {instance}:"
            f" {_reason_of(cause)}. Fix: {_BY_HAND if fix is None else f'{fix}; or {_BY_HAND}'}"
        )


class CleanupRefused(SourceError):
    """Change rows cannot be removed (cleanup.wait_for).

    The publisher continues, and the change rows stay.

    Attributes:
        table: whose change rows; None if it affects all tables.
    """

    heals = False
    of_one_table = False

    def __init__(self, table: TableName | None, cause: PublisherError) -> None:
        self.table = table
        fix = _fix_of(cause)
        of_table = "" if table is None else f"table {table}: "
        super().__init__(
            f"{of_table}the publisher cannot clean up change tables: {_reason_of(cause)}."
            f" Fix: {'' if fix is None else f'{fix}; or '}set cleanup.wait_for to off"
        )


def _reason_of(cause: PublisherError) -> str:
    """Return an error's text without its fix, which follows once for all."""
    return str(cause).partition(". Fix: ")[0]


def _fix_of(cause: PublisherError) -> str | None:
    own = str(cause).partition(". Fix: ")[2]
    number = cause.number if isinstance(cause, SourceError) else 0
    return own.rstrip(".") or _FIX_OF_CHANGE.get(number)
