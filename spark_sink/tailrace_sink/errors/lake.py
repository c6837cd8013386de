"""Errors of the lake: its tables, and what writes to them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Self

from tailrace_schemas.topics.topic_names import TableName
from tailrace_sink.errors.base import SNAPSHOT_HELPS, SinkError, TableError


class ApplyFailed(SinkError):
    """Spark failed in a step of a batch; retried a bounded number of times.

    Attributes:
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

    Attributes:
        column: empty if the key is the problem.
    """

    def __init__(self, table: str, column: str, problem: str, fix: str) -> None:
        self.table = table
        self.column = column
        where = f"table {table}{f', column {column}' if column else ''}"
        super().__init__(f"{where}: {problem}. Fix: {fix}")


class SchemaChangeRefused(TableError):
    """A change of the source table's columns that ``sink.schema_mode: fail`` does not allow.

    A new snapshot helps only after the option has changed.

    Attributes:
        column: empty if the key changed.
        change: what happened to the column, as a part of a sentence.
    """

    def __init__(self, table: str, column: str, change: str, schema_lsn: str) -> None:
        self.table = table
        self.column = column
        self.change = change
        name = table.split(".", 1)[-1]
        where = f"table {table}{f', column {column}' if column else ''}"
        super().__init__(
            f"{where}: {change} with schema version {schema_lsn}, and its schema mode is fail"
            " (sink.schema_mode, sink.schema_modes). Fix: set sink.schema_modes for this table to"
            f" evolve, restart the sink, and take a new snapshot: tailrace snapshot '{name}'. Later"
            " you may set it back"
        )


class PartitionValueRefused(TableError):
    """A row has a value that a partition of its lake table does not hold.

    A new snapshot helps only after the option has changed.

    Attributes:
        column: by which the lake table is partitioned.
    """

    def __init__(self, table: str, column: str) -> None:
        self.table = table
        self.column = column
        name = table.split(".", 1)[-1]
        super().__init__(
            f"table {table}, column {column}: the lake table is partitioned by it"
            " (sink.partition_by), and Delta holds one of its values in no partition: an empty text"
            " or __HIVE_DEFAULT_PARTITION__, which it reads as NULL, bytes, or a text that names"
            " no folder. Fix: move the column from sink.partition_by to sink.cluster_by,"
            " restart the sink, and take a new snapshot of this table, which replaces the lake's:"
            f" tailrace snapshot '{name}'. First move a companion away, or a table without a key,"
            " of several sources, or with a snapshot above sink.bytes_per_batch (it comes in parts)"
        )


class RowsElsewhere(TableError):
    """The rows of a source table are in another lake table than ``sink.into`` says."""

    def __init__(self, table: str, found: str, wanted: str) -> None:
        self.table = table
        super().__init__(
            f"table {table}: its rows are in the lake's {found}, and sink.into says {wanted}. Fix:"
            f" take a new snapshot of it {SNAPSHOT_HELPS}, whose rows go into {wanted}"
        )


class LakeNameTaken(TableError):
    """A source table has the name of a lake table of several others."""

    def __init__(self, table: str) -> None:
        self.table = table
        super().__init__(
            f"table {table}: sink.into gives its name to a lake table with other sources. Fix: use"
            " a name there that no source table has, restart the sink, and take a new snapshot of"
            " this table: tailrace snapshot"
        )


class LakeTableChanged(TableError):
    """Somebody else altered a lake table so that the sink cannot write to it.

    Attributes:
        column: names of the columns; empty if they are unknown.
        is_replaced: whether a new snapshot replaces the table.
    """

    def __init__(
        self,
        table: str,
        column: str,
        problem: str,
        *,
        is_shared: bool = False,
        is_replaced: bool = True,
    ) -> None:
        self.table = table
        self.column = column
        self.problem = problem
        self.is_replaced = is_replaced and not is_shared
        fix = f"take a new snapshot of the source table {SNAPSHOT_HELPS}, which replaces it"
        if not self.is_replaced:
            whose = "each of its source tables" if is_shared else "its source table"
            fix = (
                "undo that; or move the table's folder away (in a catalog, drop the table) and take"
                f" a new snapshot of {whose}: tailrace snapshot"
            )
        super().__init__(
            f"table {table}{f', column {column}' if column else ''} of the lake was altered by"
            f" somebody else: {problem}. Fix: {fix}"
        )


class LakeRowsChanged(TableError):
    """Somebody else changed rows of a lake table, so it is no copy of the source any more.

    Attributes:
        path: of the lake table below the lake, or of its companion.
        change: which commit it was, or what shows that the table's past is another one.
    """

    def __init__(self, path: str, change: str, *, is_shared: bool = False) -> None:
        self.path = path
        self.change = change
        whose = "each of its source tables" if is_shared else "its source table"
        super().__init__(
            f"rows of the lake's {path} were changed by somebody else: {change}. Fix: let only the"
            f" sink write to it, and take a new snapshot of {whose} {SNAPSHOT_HELPS}"
        )


class LakeTableUnreadable(TableError):
    """One lake table alone failed in every attempt at a batch, for instance as files are missing.

    A new snapshot replaces the table, unless it does not even show its files.

    Attributes:
        removal: what removes such a table, as the words of an imperative; None for any other.
    """

    def __init__(self, table: str, attempts: int, reason: str, removal: str | None = None) -> None:
        self.table = table
        self.removal = removal
        fix = "take a new snapshot of the source table (tailrace snapshot)"
        if removal is None:
            fix += ", which replaces what the lake has"
        else:
            fix = (
                f"give the sink the rights that it lacks; or, if files are damaged or gone,"
                f" {removal}, with which its older cuts go, and {fix}"
            )
        super().__init__(
            f"table {table} of the lake failed in {attempts} attempts at one batch, and no other"
            f" table did: {reason}. Fix: {fix}"
        )


class AppendSkipped(TableError):
    """Delta skipped an append, because the lake table has a later batch.

    Attributes:
        found: newest batch of the table; None if it has none.
    """

    def __init__(self, location: str, batch: int, found: int | None) -> None:
        self.location = location
        self.batch = batch
        self.found = found
        super().__init__(
            f"lake table {location} has batch {found}, so Delta skipped the append of batch"
            f" {batch}: the table belongs to another lake, or the commit table was reset. Fix: move"
            " it away, and take a new snapshot of its source table (tailrace snapshot)"
        )


class UnexpectedTableError(TableError):
    """An unforeseen error occurred while one table was written: a fault of Tailrace.

    Attributes:
        cause: the error. Its text may hold values, so it is not shown.
    """

    def __init__(self, table: str, cause: Exception) -> None:
        self.table = table
        self.cause = cause
        super().__init__(
            f"table {table}: {type(cause).__name__}. This is a fault of Tailrace. Fix: report it"
            " with the log event unexpected_error, which names the place. A new snapshot of the"
            " source table may bring it back: tailrace snapshot"
        )


class LakeTaken(SinkError):
    """Another sink writes to the same lake; only one may."""

    def __init__(self, lake: str, known_batch: int, found_batch: int) -> None:
        super().__init__(
            f"lake {lake} is at batch {found_batch}, this sink left it at {known_batch}: another"
            " sink writes to it. Fix: stop one of the two"
        )


class NameTaken(TableError):
    """A name in the catalog belongs to something else than the lake's table or view."""

    def __init__(
        self, name: str, found: str, option: str = "sink.catalog.schema_name to {database}_{schema}"
    ) -> None:
        super().__init__(
            f"the name {name} is taken: it is {found}. Fix: rename or drop that in the catalog, or"
            f" set {option}"
        )


class NamingFailed(SinkError):
    """The process that names tables in the catalog failed; tried again later."""

    retryable = True

    def __init__(self, tables: int, reason: str) -> None:
        super().__init__(f"naming {tables} tables in the catalog failed: {reason}")


class ChangesUnknown(SinkError):
    """The lake's log lacks changes between two points."""

    @classmethod
    def no_log(cls, lake: str) -> Self:
        """Create the error of a lake without a log."""
        return cls(
            f"{lake} has no log: no sink of this release has written to it yet. Fix: use the"
            " address in sink.lake, or start the sink (tailrace sink)"
        )

    @classmethod
    def no_cut(cls, lake: str, point: object) -> Self:
        """Create the error of a time before the log's first cut."""
        return cls(
            f"the log of {lake} has no cut at or before {point}. Fix: choose a later time, or leave"
            " it out: changes then start where the log starts"
        )

    @classmethod
    def starts_later(cls, lake: str, begins: str, after: str) -> Self:
        """Create the error of an LSN before the log's first cut."""
        return cls(
            f"the log of {lake} starts at LSN {begins}, which is later than"
            f" {after or 'its first cut'}: older days were deleted (sink.retention), or the lake"
            f" started there. Fix: read the changes after LSN {begins}, and the table at that LSN"
            " with as_of(lsn=...)"
        )

    @classmethod
    def lost(cls, table: TableName, lsn: str, reason: str) -> Self:
        """Create the error of records that Kafka lost, or that were left out."""
        return cls(
            f"the log lacks changes of table {table} up to LSN {lsn}: {reason}. Fix: read the"
            " changes after that LSN, and the table at that LSN or a later one with as_of(lsn=...)"
        )
