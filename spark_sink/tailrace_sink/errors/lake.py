"""What the lake did not take."""

from __future__ import annotations

from collections.abc import Sequence

from tailrace_sink.errors.base import SinkError, TableError


class ApplyFailed(SinkError):
    """Spark could not carry out a step of a batch; tried again a bounded number of times.

    Attributes:
        step: what was being done, with its table.
        cause_classes: Java classes of the chain of causes, outermost first.
    """

    retryable = True

    def __init__(self, step: str, reason: str, cause_classes: Sequence[str] = ()) -> None:
        self.step = step
        self.reason = reason
        self.cause_classes = tuple(cause_classes)
        super().__init__(f"{step} failed: {reason}")


class UnsupportedSchemaChange(TableError):
    """A change of the source table that the lake table cannot follow without losing values.

    The table stops alone and leaves the lake's cuts; a new snapshot brings it back.

    Attributes:
        table: database.schema.table.
        column: the column, or empty when it is about the key.
    """

    def __init__(self, table: str, column: str, problem: str, fix: str) -> None:
        self.table = table
        self.column = column
        super().__init__(f"table {table}{f', column {column}' if column else ''}: {problem}; {fix}")


class LakeTableChanged(TableError):
    """Somebody else altered a lake table so that the sink cannot write to it.

    The table stops alone; a new snapshot makes it anew.

    Attributes:
        table: database.schema.table.
        column: the columns, or empty when nothing tells which they are.
    """

    def __init__(self, table: str, column: str, problem: str) -> None:
        self.table = table
        self.column = column
        super().__init__(
            f"table {table}{f', column {column}' if column else ''} of the lake was altered by"
            f" somebody else: {problem}; take a new snapshot of the source table (tailrace"
            " snapshot), which then replaces the lake's table"
        )


class LakeTableUnreadable(TableError):
    """A lake table failed in every attempt at a batch, by itself: files of it are missing, say.

    The table stops alone; a new snapshot replaces it.

    Attributes:
        table: database.schema.table.
    """

    def __init__(self, table: str, attempts: int, reason: str) -> None:
        self.table = table
        super().__init__(
            f"table {table} of the lake failed in {attempts} attempts at one batch, and no other"
            f" table did: {reason}. Fix: take a new snapshot of the source table (tailrace"
            " snapshot), which replaces what the lake has; if its _delta_log is damaged, move the"
            " table's folder away first"
        )


class AppendSkipped(TableError):
    """A lake table has a later batch than the one that was to be appended: nothing was written.

    The table stops alone.

    Attributes:
        location: of the table.
        batch: the batch to append.
        found: the newest one that the table has; None when it has none.
    """

    def __init__(self, location: str, batch: int, found: int | None) -> None:
        self.location = location
        self.batch = batch
        self.found = found
        super().__init__(
            f"lake table {location} has batch {found}, so Delta would not append batch {batch}: the"
            " table is another lake's, or the commit table was reset; move it away, and take a new"
            " snapshot of its source table (tailrace snapshot)"
        )


class ClassArchiveFailed(SinkError):
    """No archive of Spark's classes could be made; sinks start without one, only later."""

    def __init__(self, reason: str) -> None:
        super().__init__(f"no archive of classes was made: {reason}")


class LakeTaken(SinkError):
    """Another sink writes to the same lake: exactly one may."""

    def __init__(self, lake: str, known_batch: int, found_batch: int) -> None:
        super().__init__(
            f"lake {lake} is at batch {found_batch}, this sink left it at {known_batch}: another"
            " sink writes to it; stop one of the two"
        )
