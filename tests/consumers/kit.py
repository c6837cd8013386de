"""The conformance kit: what the publisher writes about one scripted source, and what it means.

``python -m tests.consumers.kit`` writes it to examples/conformance; a test compares. The publisher
is the real one, over the simulation's server and brokers, whose time is virtual: each run writes
the same bytes.
"""

from __future__ import annotations

import base64
import datetime as dt
import json
from collections.abc import Iterable
from decimal import Decimal
from pathlib import Path
from typing import Any, Final
from uuid import UUID

from tailrace_publisher.encode.envelopes.envelope import EnvelopeEncoder
from tailrace_publisher.runtime import Step
from tailrace_schemas.events.column_types import ColumnType
from tailrace_schemas.events.envelope import SchemaColumn, TableSchema, envelope_schema
from tailrace_schemas.position.lsn import Lsn
from tailrace_schemas.records.signals import TableOrder
from tailrace_schemas.topics.topic_names import TableName
from tests.consumers.conformance import Record, Subscriber
from tests.simulation.scripted.script import Script

FOLDER: Final = Path(__file__).parents[2] / "examples" / "conformance"
PROGRESS: Final = "sim.progress"
VALUES: Final[tuple[tuple[str, Any, Any], ...]] = (
    ("bit", True, True),
    ("tinyint", 255, 255),
    ("int", -(2**31), -(2**31)),
    ("bigint", 2**63 - 1, str(2**63 - 1)),
    ("real", 1.5, 1.5),
    ("float(53)", -1e-300, -1e-300),
    (
        "decimal(38,10)",
        Decimal("-1234567890123456789012345678.0000000001"),
        "-1234567890123456789012345678.0000000001",
    ),
    ("money", Decimal("-0.0001"), "-0.0001"),
    ("nvarchar(20)", "é \U0001f600", "é \U0001f600"),
    ("varbinary(4)", b"\x00\xff", "00ff"),
    ("date", dt.date(1, 1, 1), -719162),
    ("date", dt.date(9999, 12, 31), 2932896),
    ("datetime2(6)", dt.datetime(1969, 12, 31, 23, 59, 59, 999999), "-1"),  # noqa: DTZ001
    ("datetime2(6)", dt.datetime(9999, 12, 31, 23, 59, 59, 999999), "253402300799999999"),  # noqa: DTZ001
    ("time(6)", dt.time(23, 59, 59, 999999), "86399999999"),
    ("datetimeoffset(7)", "2026-11-22T10:11:12.1234567+05:30", "2026-11-22T10:11:12.1234567+05:30"),
    (
        "uniqueidentifier",
        UUID("6f9619ff-8b86-d011-b42d-00c04fc964ff"),
        "6f9619ff-8b86-d011-b42d-00c04fc964ff",
    ),
    ("int", None, None),
)
"""SQL type, what the source has, and what a reader finds: numbers, booleans and texts as they are;
Avro longs and decimals as digits, bytes as hexadecimal digits."""

TABLES: Final = ("orders", "lines", "notes")


class Source(Script):
    """A script whose topics can be taken as they are."""

    def records(self) -> list[Record]:
        """The committed records of data and progress topics."""
        topics = [self._sim.broker.topics[name] for name in (*map(topic_of, TABLES), PROGRESS)]
        return [
            Record(topic.name, partition.number, entry.offset, entry.key, entry.value)
            for topic in topics
            for partition in topic.partitions
            for entry in partition.committed()
        ]

    def schemas(self) -> dict[str, Any]:
        """The registered schemas, by id."""
        texts = self._sim.schemas.by_id
        return {str(number): json.loads(text) for number, text in enumerate(texts, 1)}

    def rows(self, table: str) -> list[dict[str, Any]]:
        """The rows of a table at the source, by id."""
        found = self._table(table)
        names = {column.column_id: column.name for column in found.columns}
        rows = ({names[c]: row.get(c) for c in names} for row in found.rows.values())
        return sorted(rows, key=lambda row: row["id"])

    def move(self, table: str, number: int, to: int) -> None:
        """A transaction that updates the key of a row, after which the source has both in one."""
        before = self._table(table).rows[number]
        self._commit(table, [(number, before, None), (to, None, {**before, 1: to})])


def topic_of(table: str) -> str:
    """The topic of a table."""
    return f"sim.shop.dbo.{table}"


def publish() -> Source:
    """Let the publisher publish what each section of the contract speaks of."""
    kafka = {"bootstrap": "broker:9092", "partitions": 2}
    source = Source(kafka=kafka, snapshot={"mode": "initial", "chunk_rows": 3})
    source.create("orders", *range(1, 8))
    source.create("lines")

    def while_it_is_read() -> None:
        source.update("orders", 2, 20)
        source.delete("orders", 5)
        source.insert("orders", 9)

    source.publish(lambda: not source.out_of_cut(), during=while_it_is_read, at=Step.SNAPSHOT_READ)
    source.insert("lines", 1, 2, 3)
    source.update("orders", 1, 10)
    source.move("orders", 7, 70)
    source.delete("lines", 2)
    source.publish(at=Step.HEARTBEAT)
    # A transaction larger than a Kafka transaction, and a kill inside it.
    source.insert("lines", *range(10, 16))
    source.die_at(Step.COMMITTED, 1, rows_per_transaction=2, linger_ms=0)
    source.publish(rows_per_transaction=2, linger_ms=0)
    # A further column of a large type, whose value an update leaves alone; and one that goes.
    source.create("notes", is_captured=False)
    source.alter("notes", "add", "body", "nvarchar(max)")
    source.enable("notes")
    source.publish(lambda: not source.out_of_cut())
    source.insert("notes", 1, 2)
    source.publish()
    for number, text in ((1, "large"), (2, "left alone")):
        source.set("notes", number, "body", text)  # type: ignore[arg-type]
        source.update("notes", number, number * 100)
    source.alter("lines", "add", "extra")
    source.enable("lines", "dbo_lines_2")
    source.publish()
    source.set("lines", 1, "extra", 7)
    source.publish()
    # A new snapshot of a table that has events, with a row that left unseen.
    source.update("orders", 1, 11)
    source.ask_for("orders")
    source.publish(lambda: not source.out_of_cut())
    # A table that was stopped, and changed meanwhile, starts again: it leaves the list once.
    source.order(TableOrder.STOP_TABLE, "orders")
    source.publish(lambda: source.out_of_cut() == {"orders"})
    source.delete("orders", 3)
    source.insert("orders", 30)
    source.publish()
    source.ask_for("orders")
    source.publish(lambda: not source.out_of_cut())
    source.delete("orders", 4)
    source.publish()
    return source


def files() -> dict[str, str]:
    """The files of the kit, by name."""
    source = publish()
    records, schemas = source.records(), source.schemas()
    used = {int.from_bytes(raw[1:5], "big") for r in records for raw in (r.key, r.value) if raw}
    subscriber = Subscriber(records, schemas, PROGRESS)
    groups = list(subscriber.groups())
    state = {topic: _held(rows.values()) for topic, rows in sorted(subscriber.state.items())}
    assert state == {topic_of(table): _held(source.rows(table)) for table in sorted(TABLES)}
    return {
        "records.jsonl": _lines(record.as_json() for record in records),
        "schemas.json": _indented({n: s for n, s in schemas.items() if int(n) in used}),
        "expected_groups.jsonl": _lines(groups),
        "expected_state.json": _indented(state),
        "values.jsonl": _values(),
    }


def _held(rows: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """Rows by id, without NULLs: a row from before a column was added has none of it."""
    found = ({name: value for name, value in row.items() if value is not None} for row in rows)
    return sorted(found, key=lambda row: row["id"])


def _values() -> str:
    """One event of each value, as it is encoded, and what a reader must find in it."""
    lines = []
    for declared, given, expected in VALUES:
        column = SchemaColumn(2, "v", ColumnType.parse(declared))
        key = SchemaColumn(1, "id", ColumnType("int"), nullable=False, key_ordinal=1)
        schema = TableSchema(TableName("shop", "dbo", "t"), "dbo_t", Lsn(1, 1, 1), (key, column))
        encoder = EnvelopeEncoder("sim", schema, topic_of("t"), 1, 2)
        commit, seqval = Lsn(1, 1, 9).to_bytes(), Lsn(1, 1, 8).to_bytes()
        rows = encoder.encode([(commit, 1, seqval, 2, b"\x03", 1, given)], {commit: 0})
        lines.append(
            {
                "sql_type": declared,
                "value": base64.b64encode(rows.values[0]).decode(),
                "schema": envelope_schema("sim", schema),
                "expected": expected,
            }
        )
    return _lines(lines)


def _lines(values: Any) -> str:
    return "".join(json.dumps(value, ensure_ascii=False) + "\n" for value in values)


def _indented(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, indent=1) + "\n"


if __name__ == "__main__":
    for name, text in files().items():
        (FOLDER / name).write_text(text, encoding="utf-8")
