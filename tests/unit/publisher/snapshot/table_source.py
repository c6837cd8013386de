"""A server with one table that answers what the snapshot asks, by the meaning of its statements."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any, Final, cast

from tailrace_publisher.change.instance import CapturedColumn, CaptureInstance
from tailrace_publisher.encode.envelopes.envelope import EnvelopeEncoder
from tailrace_publisher.errors import SourceError
from tailrace_publisher.ports import Connection
from tailrace_publisher.snapshot.pending import PendingTable
from tailrace_publisher.snapshot.progress import SnapshotProgress, SnapshotState
from tailrace_publisher.snapshot.table_reader import ReadSource
from tailrace_publisher.source.catalog.versions import current_columns
from tailrace_publisher.source.log.log_end import LogEndSource
from tailrace_schemas.events.column_types import ColumnType
from tailrace_schemas.events.envelope import TableSchema
from tailrace_schemas.position.lsn import Lsn
from tailrace_schemas.topics.topic_names import TableName

TABLE: Final = TableName("db", "dbo", "t")
START: Final = Lsn(1, 0x10, 1)
Row = tuple[Any, ...]


def at(block: int) -> Lsn:
    return Lsn(1, block, 1)


@dataclass
class TableSource:
    """The table's rows, its columns' names (all of type int but the last, text), and its log."""

    rows: list[Row]
    names: tuple[str, ...] = ("a", "b", "c", "note")
    newest: Lsn = START
    log_end: Lsn | None = START
    error: SourceError | None = None
    statements: list[str] = field(default_factory=list)
    queries: int = 0
    is_closed: bool = False

    def query(self, sql: str, *parameters: Any) -> list[Any]:
        self.statements.append(sql)
        if "fn_cdc_get_max_lsn" in sql:
            return [(self.newest.to_bytes(),)]
        if "dm_db_log_stats" in sql:
            return [(None if self.log_end is None else str(self.log_end), 16.0)]
        if sql.startswith("SET "):
            return []
        if "snapshot_isolation_state" in sql:
            return [(1,)]
        if self.error is not None:
            raise self.error
        return self._selected(sql, parameters)

    def query_within(
        self, sql: str, *parameters: Any, size_of: Callable[[Any], int], at_most: int
    ) -> tuple[list[list[Any]], bool]:
        rows = self.query(sql, *parameters)
        for count, row in enumerate(rows, 1):
            at_most -= size_of(row)
            if at_most <= 0:
                return [rows[:count]], True
        return [rows], False

    def close(self) -> None:
        self.is_closed = True

    def _selected(self, sql: str, parameters: tuple[Any, ...]) -> list[Row]:
        assert " OR " not in sql
        if "TOP" not in sql:
            return list(self.rows)
        order = re.findall(r"\[(\w+)\]", sql[sql.index("ORDER BY") :])
        places = [self.names.index(name) for name in order]
        found = sorted(self.rows, key=lambda row: [row[place] for place in places])
        limit, *values = parameters
        if "WHERE" in sql:
            where = sql[sql.index("WHERE") : sql.index("ORDER BY")]
            terms = re.findall(r"\[(\w+)\] (=|>) ", where)
            assert len(terms) == len(values)
            for (name, sign), text in zip(terms, values, strict=True):
                place, value = self.names.index(name), int(text)
                found = [
                    row
                    for row in found
                    if (row[place] > value if sign == ">" else row[place] == value)
                ]
        return found[:limit]

    @property
    def reads(self) -> list[str]:
        """Statements that read the table."""
        return [sql for sql in self.statements if "FROM [dbo].[t]" in sql]

    def as_connection(self) -> Connection:
        return cast(Connection, self)

    def as_source(self) -> ReadSource:
        connection = self.as_connection()
        return ReadSource(connection, LogEndSource(connection, effect=None))


def instance_of(
    identity: tuple[str, ...],
    key: tuple[str, ...] | None = None,
    names: tuple[str, ...] = ("a", "b", "c", "note"),
) -> CaptureInstance:
    return CaptureInstance(
        name="dbo_t",
        table=TABLE,
        low_watermark=START,
        create_date=datetime(2026, 1, 1),  # noqa: DTZ001
        object_id=1,
        source_object_id=2,
        supports_net_changes=False,
        ordered_by_command_id=True,
        columns=tuple(
            CapturedColumn(
                number,
                name,
                number,
                ColumnType("nvarchar", length=-1) if name == "note" else ColumnType("int"),
                nullable=name not in identity,
                is_computed=False,
                in_source=True,
            )
            for number, name in enumerate(names, 1)
        ),
        key=identity if key is None else key,
        identity=identity,
    )


def pending(instance: CaptureInstance, resume_key: str | None = None) -> PendingTable:
    schema = TableSchema(TABLE, instance.name, START, current_columns(instance))
    state = SnapshotState.PENDING if resume_key is None else SnapshotState.RUNNING
    return PendingTable(instance, schema, SnapshotProgress(state, None, resume_key))


def behind(table: PendingTable, progress: SnapshotProgress) -> PendingTable:
    return replace(table, progress=progress)


def encoder_of(table: PendingTable) -> EnvelopeEncoder:
    return EnvelopeEncoder(
        "server", table.schema, "p.t", 1, 2 if table.schema.key_columns else None
    )
