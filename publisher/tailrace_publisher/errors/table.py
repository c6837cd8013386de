"""Errors that stop one table: its columns, its schema, a value, a fault of Tailrace."""

from __future__ import annotations

from collections.abc import Sequence

from tailrace_publisher.errors.base import PublisherError
from tailrace_schemas.topics.topic_names import TableName


class TableFailed(PublisherError):
    """One table cannot continue; the others can.

    Attributes:
        cause: the error that stopped it.
    """

    of_one_table = False

    def __init__(self, table: TableName, cause: Exception) -> None:
        self.table = table
        self.cause = cause
        super().__init__(f"table {table}: {cause}")


class SendingFailed(TableFailed):
    """One table cannot continue, found between rows that are sent.

    The session ends without a commit. Rows of other tables in its Kafka transaction are after the
    position, so the next session sends them.
    """


class UnexpectedTableError(PublisherError):
    """An unforeseen error occurred while one table was read or encoded.

    Attributes:
        doing: what was being done, and where.
    """

    def __init__(self, doing: str, cause: Exception) -> None:
        self.doing = doing
        self.cause = cause
        super().__init__(
            f"{doing}: {type(cause).__name__}. This is a fault of Tailrace. Fix: report it with"
            " the log event unexpected_error, which names the place. Until it is repaired, capture"
            " the table without the column, or leave the table out with tables.exclude"
        )


class ColumnsRefused(PublisherError):
    """The options of columns do not fit a table as it is now.

    Attributes:
        problems: one sentence per column: table, column, option and what to do.
    """

    def __init__(self, problems: Sequence[str]) -> None:
        self.problems = tuple(problems)
        super().__init__("; ".join(self.problems))


class RepairRefused(PublisherError):
    """Rows of a table cannot be published again by their keys; the table itself continues."""

    def __init__(self, table: TableName, reason: str) -> None:
        super().__init__(
            f"rows of table {table} cannot be repaired: {reason}. Fix: take a new snapshot of it"
            " (tailrace snapshot)"
        )


class OutboxRefused(PublisherError):
    """A table that publisher.outbox matches cannot be one, or a row of it is no message.

    Attributes:
        option: the one of publisher.outbox that is concerned.
        position: text form of the change's position; empty if no row is concerned.
    """

    of_events = True

    def __init__(
        self, table: str, column: str, option: str, reason: str, position: str = ""
    ) -> None:
        self.table = table
        self.column = column
        self.option = option
        self.position = position
        where = f"table {table}" + (f", column {column}" if column else "")
        at = f", position {position}" if position else ""
        fix = (
            f"correct publisher.outbox ({option}), or what writes the table. Then take a new"
            " snapshot (tailrace snapshot); rows in between send no message. With on_bad_event:"
            " fail the publisher ends here instead, and loses none"
            if position
            else f"name a captured column of a suitable type in publisher.outbox ({option})"
        )
        super().__init__(f"{where}{at}: {reason}. Fix: {fix}")


class SchemaRefused(PublisherError):
    """The schema registry refused a schema for good; the text names the subject and the fix."""

    of_events = True


class EncodeError(PublisherError):
    """A value does not fit its Avro type, and is never silently published as NULL.

    Attributes:
        position: text form of the change's position.
        reason: why, without any value.
        is_of_event: whether one event's value does not fit. If not, the change table is damaged.
    """

    of_events = True

    def __init__(
        self, table: str, column: str, position: str, reason: str, *, is_of_event: bool = False
    ) -> None:
        self.table = table
        self.column = column
        self.position = position
        self.reason = reason
        self.is_of_event = is_of_event
        super().__init__(f"table {table}, column {column}, position {position}: {reason}")
