"""The log's tail applied to a table's rows, against the source's own rows: no lake, no servers."""

from __future__ import annotations

import datetime as dt
import json
import random
from collections.abc import Sequence
from typing import Any

import pyarrow as pa
import pytest

from tailrace.lake.tail_history import history_with_tail
from tailrace.lake.tail_rows import with_tail
from tailrace_schemas.events.envelope import TableSchema, envelope_schema
from tailrace_schemas.position.lsn import Lsn
from tailrace_schemas.topics.topic_names import TopicNames
from tailrace_sink.columns.arrow_values import lake_type
from tailrace_sink.fold.table_batch import TableBatch
from tailrace_sink.plan.sink_state import CutPoint
from tailrace_sink.plan.topic_ranges import TopicRange
from tailrace_sink.reading.tail_table import TableRows
from tailrace_sink.rows.writer_schema import WriterSchema, writer_schema
from tailrace_sink.tables.lake_table import Kind
from tailrace_sink.tables.new_table import new_table
from tests.envelopes.every_type import change, of_every_type, with_a_wide_key
from tests.envelopes.messages import Message, Messages
from tests.envelopes.source import Source
from tests.envelopes.tables import SourceTable, column
from tests.envelopes.transaction import Transaction


class OfflineSource(Source):
    """A source without brokers and registry: its messages stay in memory."""

    def __init__(self) -> None:
        self.prefix, self.placeholder, self.through = "t", None, ""
        self.names = TopicNames(self.prefix)
        self.tables, self.cuts, self.pending = {}, {}, []
        self.topics = _NoTopics()  # type: ignore[assignment]
        self._next_lsn = Lsn(1, 0, 1)
        self._messages = Messages(self.prefix)
        self.schemas: dict[int, WriterSchema] = {}

    def _register(self, topic: str, schema: TableSchema) -> int:
        schema_id = len(self.schemas) + 1
        envelope = json.loads(json.dumps(envelope_schema(self.prefix, schema)))
        self.schemas[schema_id] = writer_schema(schema_id, envelope, topic)
        return schema_id

    def take(self, table: SourceTable) -> tuple[TableBatch, pa.Table]:
        """The waiting events of a table, as the part of a tail."""
        own = [m for m in self.pending if m.topic == table.topic and m.value is not None]
        self.pending = [m for m in self.pending if m.topic != table.topic]
        writers = [self.schemas[i] for i in sorted({m.schema_id for m in own})]
        found = TopicRange(table.topic, {}, len(own), frozenset(w.schema_id for w in writers))
        return TableBatch(table.name, table.name, found, tuple(writers)), _values(own)


class _NoTopics:
    def create(self, *_: Any) -> None:
        """Create nothing."""


def _values(messages: Sequence[Message]) -> pa.Table:
    rows = [
        {"partition": message.partition, "offset": offset, "value": message.value}
        for offset, message in enumerate(messages)
    ]
    types = {"partition": pa.int32(), "offset": pa.int64(), "value": pa.binary()}
    return pa.Table.from_pylist(rows, schema=pa.schema(list(types.items())))


def in_lake(value: Any) -> Any:
    if isinstance(value, dt.time):
        return ((value.hour * 60 + value.minute) * 60 + value.second) * 10**6 + value.microsecond
    return value


def commits(source: Source, table: SourceTable, chance: random.Random, count: int) -> None:
    for _ in range(count):

        def changes(transaction: Transaction) -> None:
            for _ in range(6):
                change(table, chance, transaction)

        source.commit(changes)


def by_key(rows: pa.Table, table: SourceTable) -> dict[Any, Any]:
    names = [of.name for of in table.schema.columns]
    listed = [{n: row[n] for n in names} for row in rows.to_pylist() if row["_cdc_op"] != "d"]
    found = {table.key_of(row): row for row in listed}
    assert len(found) == len(listed), "a key is there twice"
    return found


def at_source(table: SourceTable) -> dict[Any, Any]:
    return {
        key: {name: in_lake(value) for name, value in row.items()}
        for key, row in table.rows.items()
    }


@pytest.mark.parametrize("seed", range(12))
@pytest.mark.parametrize("deletes", ["hard", "soft"])
@pytest.mark.parametrize("make", [of_every_type, with_a_wide_key])
def test_rows_after_each_tail_are_those_of_the_source(make: Any, deletes: str, seed: int):
    """Whatever it has: large values that changes lack, moved keys, columns that change."""
    chance, source = random.Random(seed), OfflineSource()
    table = make(source)
    mirror: TableRows[pa.Table] | None = None
    history = TableRows(_history_table(table), _no_intervals(table))
    for step in range(4):
        if step == 2 and make is with_a_wide_key:
            kept = [of for of in table.schema.columns if of.name not in ("v", "text")]
            more = (column(9, "w", "bigint"), column(10, "the text", "varchar(max)"))
            source.alter(table, *kept, *more, column(11, "added", "date"))
        commits(source, table, chance, chance.randint(1, 3))
        batch, values = source.take(table)
        lsn = max(source.cuts)
        mirror = with_tail(mirror, batch, values, deletes, lsn, Kind.MIRROR)
        assert by_key(mirror.rows, table) == at_source(table)
        history = history_with_tail(history, batch, values, None, CutPoint(step, lsn))
        current = [row for row in history.rows.to_pylist() if row["_cdc_is_current"]]
        assert by_key(
            pa.Table.from_pylist(current, schema=history.rows.schema), table
        ) == at_source(table)
    ended = [row for row in history.rows.to_pylist() if not row["_cdc_is_current"]]
    assert ended
    assert all(row["_cdc_valid_from_lsn"] <= row["_cdc_valid_to_lsn"] for row in ended)


def _history_table(table: SourceTable) -> Any:
    return new_table(table.schema, Kind.HISTORY)


def _no_intervals(table: SourceTable) -> pa.Table:
    described = _history_table(table)
    columns = {of.name: of.type for of in described.columns}
    columns |= {name: type_ for name, (type_, _) in described.cdc_columns.items()}
    return pa.schema([(name, lake_type(type_)) for name, type_ in columns.items()]).empty_table()
