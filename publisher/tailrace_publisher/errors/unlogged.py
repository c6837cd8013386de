"""Errors for rows that DDL changed without change rows, because CDC does not log it."""

from __future__ import annotations

from tailrace_publisher.errors.source import SourceError
from tailrace_schemas.position.lsn import Lsn
from tailrace_schemas.topics.topic_names import TableName


class RowsSwitched(SourceError):
    """Rows entered or left with a partition: ALTER TABLE ... SWITCH writes no change rows."""

    heals = False

    def __init__(self, table: TableName) -> None:
        self.table = table
        name = f"{table.schema}.{table.table}"
        super().__init__(
            f"table {table}: rows entered or left with a partition (ALTER TABLE ... SWITCH), which"
            " change data capture does not log: its topic lacks these changes. Fix: take a new"
            f" snapshot (tailrace snapshot '{name}'), or let the publisher take it each time"
            " (snapshot.on_gap: snapshot). If no partition is ever switched, enable the table with"
            " @allow_partition_switch = 0: the server then refuses SWITCH, and nothing is compared"
        )


class ValuesConverted(SourceError):
    """ALTER COLUMN converted the values of existing rows: SQL Server writes no change rows for it.

    Attributes:
        lsn: the LSN of the statement.
    """

    heals = False

    def __init__(self, table: TableName, column: str, was: str, now: str, lsn: Lsn) -> None:
        self.table = table
        self.column = column
        self.lsn = lsn
        name = f"{table.schema}.{table.table}"
        super().__init__(
            f"table {table}, column {column}: ALTER COLUMN at {lsn} converted {was} to {now}, which"
            " can change values of existing rows, and change data capture does not log that. Fix:"
            f" take a new snapshot (tailrace snapshot '{name}'), or let the publisher take it each"
            " time (snapshot.on_gap: snapshot)"
        )
