"""A lake's log in a folder, written without Kafka and Spark: the real events and records."""

from __future__ import annotations

import datetime as dt
import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
from deltalake import CommitProperties, DeltaTable, write_deltalake
from deltalake import Transaction as Scope

from tailrace_schemas.events.envelope import SchemaColumn, TableSchema, envelope_schema
from tailrace_schemas.position.lsn import Lsn
from tailrace_schemas.records.progress import (
    PROGRESS_SCHEMA,
    OperationCounts,
    PartitionProgress,
    Progress,
    position_hash,
    signed,
)
from tailrace_schemas.topics.topic_names import TableName, TopicNames
from tailrace_sink.log.cut_rows import rows_of_events, rows_of_state
from tailrace_sink.plan.cut_plan import LogRange
from tailrace_sink.plan.log_state import LogState
from tailrace_sink.plan.progress_record import Loss, ProgressRecord
from tailrace_sink.plan.scopes import log_scope
from tailrace_sink.plan.sink_state import Position, SinkState
from tests.envelopes.messages import FIRST_COMMIT_MS, Message, Messages, framed_progress
from tests.envelopes.tables import DATABASE, Row, SourceTable
from tests.envelopes.transaction import Transaction

_PROGRESS_ID = 1


class WrittenLog:
    """A source whose commits are in the log of a lake at once: a cut for each.

    Attributes:
        batch: of the newest cut.
        closed: LSN that it closes.
    """

    def __init__(self, lake: Path, into: Mapping[str, str] | None = None) -> None:
        self.lake = lake
        self.placeholder: str | None = None
        self.names = TopicNames("p")
        self.closed = str(Lsn.ZERO)
        self._into = into or {}
        self._messages = Messages("p")
        self.batch = 0
        self._next = Lsn(1, 0, 1)
        self._schemas = _PROGRESS_ID
        self._offsets: dict[tuple[str, int], int] = {}
        self._store(_PROGRESS_ID, PROGRESS_SCHEMA)

    def next_lsn(self) -> Lsn:
        lsn, self._next = self._next, Lsn(1, self._next.block + 1, 1)
        return lsn

    def table(self, name: str, *columns: SchemaColumn) -> SourceTable:
        named = TableName(DATABASE, "dbo", name)
        table = SourceTable(named, self.names.data(named), self._version(named, columns), 0)
        self._register(table)
        return table

    def alter(self, table: SourceTable, *columns: SchemaColumn) -> None:
        """Begin a new schema version; the rows follow by column id."""
        old = {c.column_id: c.name for c in table.schema.columns}
        table.schema = self._version(table.name, columns)
        self._register(table)
        table.rows = {
            key: {c.name: row.get(old.get(c.column_id, "")) for c in columns}
            for key, row in table.rows.items()
        }

    def commit(self, *changes: Callable[[Transaction], None], **cut: Any) -> str:
        """One source transaction, as a cut of the log.

        Returns:
            The commit LSN.
        """
        transaction = Transaction(self, self.next_lsn())  # type: ignore[arg-type] # what it needs
        for change in changes:
            change(transaction)
        self.append(transaction.messages, str(transaction.lsn), **cut)
        return str(transaction.lsn)

    def append(
        self,
        messages: list[Message],
        closed: str,
        *,
        is_bulk: bool = False,
        lost: str | None = None,
    ) -> None:
        """Append a cut.

        Args:
            is_bulk: whether the events themselves are left out.
            lost: name of a topic of which records are lost.
        """
        self.batch += 1
        ranges: dict[str, LogRange] = {}
        record = self._progress(messages, closed, ranges)
        after = ProgressRecord(0, self.batch - 1, record, framed_progress(_PROGRESS_ID, record))
        state = SinkState(self.batch, closed, _commit_ms(closed), Position.after(after))
        found = LogState(
            state,
            epoch=1,
            owner="test",
            prefix="p",
            deletes="hard",
            lost={} if lost is None else {lost: Loss("gone")},
            in_kafka=ranges if is_bulk else {},
            into=self._into,
        )
        day = dt.date(2026, 1, 1)
        rows = [rows_of_state(found, [after], self.names.progress, day)]
        if messages and not is_bulk:
            rows.append(rows_of_events(self._rows(messages), found, day))
        scope = Scope(log_scope("p"), found.mark.version)
        done = CommitProperties(app_transactions=[scope])
        write_deltalake(self._path, pa.concat_tables(rows), mode="append", commit_properties=done)

    def forget(self, condition: str) -> None:
        """Delete rows of the log, as retention does."""
        DeltaTable(self._path).delete(condition)

    def message(
        self, table: SourceTable, op: str, before: Row | None, after: Row | None, *rest: Any
    ) -> Message:
        return self._messages.message(table, op, before, after, *rest)

    @property
    def _path(self) -> str:
        return f"{self.lake}/_tailrace/log"

    def _rows(self, messages: list[Message]) -> pa.Table:
        rows = []
        for message in messages:
            place = (message.topic, message.partition)
            offset = self._offsets.get(place, 0)
            self._offsets[place] = offset + 1
            row = {"topic": message.topic, "partition": message.partition, "offset": offset}
            rows.append(
                {**row, "schema_id": message.schema_id, "key": message.key, "value": message.value}
            )
        names = ("topic", "partition", "offset", "schema_id", "key", "value")
        types = (pa.string(), pa.int32(), pa.int64(), pa.int32(), pa.binary(), pa.binary())
        return pa.Table.from_pylist(rows, pa.schema(list(zip(names, types, strict=True))))

    def _progress(
        self, messages: list[Message], closed: str, ranges: dict[str, LogRange]
    ) -> Progress:
        parts: dict[tuple[str, int], PartitionProgress] = {}
        for message in messages:
            place = (message.topic, message.partition)
            first = self._offsets.get(place, 0)
            part = parts.setdefault(place, PartitionProgress(*place, first, first, 0, 0))
            part.next_offset += 1
            if message.position is None:
                continue
            part.count += 1
            total = part.position_hash + position_hash(message.position.to_bytes())
            part.position_hash = signed(total)
            one = OperationCounts.of_positions({int(message.position.operation): 1})
            part.operations = one.plus(part.operations or OperationCounts())
            if message.schema_id not in part.schema_ids:
                part.schema_ids.append(message.schema_id)
        for part in parts.values():
            ranges.setdefault(part.topic, LogRange()).take(part)
        after, self.closed = self.closed, closed
        return Progress(
            shard=0,
            server="test",
            database=DATABASE,
            after_lsn=after,
            closed_lsn=closed,
            closed_commit_ms=_commit_ms(closed),
            closed=True,
            published_ms=FIRST_COMMIT_MS,
            partitions=list(parts.values()),
        )

    def _version(self, name: TableName, columns: tuple[SchemaColumn, ...]) -> TableSchema:
        return TableSchema(name, f"dbo_{name.table}", self.next_lsn(), columns)

    def _register(self, table: SourceTable) -> None:
        self._schemas += 1
        table.value_schema_id = self._schemas
        self._store(self._schemas, envelope_schema("p", table.schema))

    def _store(self, schema_id: int, schema: Any) -> None:
        path = self.lake / "_tailrace" / "schemas" / f"{schema_id}.json"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(schema), encoding="utf-8")


def _commit_ms(lsn: str) -> int:
    return FIRST_COMMIT_MS + Lsn.parse(lsn).block
