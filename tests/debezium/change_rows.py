"""What change tables hold, told as the events that Debezium must make of them; and its events.

Both sides end in the same shape, so that one `==` compares them row by row.
"""

from __future__ import annotations

import base64
import datetime
import decimal
import json
import re
import uuid
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import pyodbc
from confluent_kafka import OFFSET_BEGINNING, Consumer, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

UNAVAILABLE = "__debezium_unavailable_value"
"""Debezium's marker for a large column whose value the change row does not hold."""
MARKED = ("text", "ntext", "image", "xml")
"""The types it marks: those that the JDBC driver calls LONG in a result. The (max) types it calls
VARCHAR, NVARCHAR and VARBINARY there, and Debezium 3.6.1 leaves their NULL a null. It also reads
the update mask from the wrong end (debezium/dbz#2650), so such columns need a table of at most
eight columns to be told right."""
_TEMPORAL = ("date", "time", "smalldatetime", "datetime", "datetime2", "datetimeoffset")
_TRAILING_ZEROS = re.compile(r"(:\d\d)(?:\.0+|(\.\d*?[1-9])0+)(?=Z|[+-]\d|$)")

CREATED_WITHIN_S = 30

Row = dict[str, Any]


@dataclass(frozen=True)
class Event:
    """A change event by what it says of the change; tombstones are left out."""

    op: str
    commit_lsn: str | None
    change_lsn: str | None
    serial: int | None
    before: Row | None
    after: Row | None


def differences(found: Sequence[Event], expected: Sequence[Event]) -> list[str]:
    """What distinguishes the two, field by field; empty when they are equal."""
    said = [] if len(found) == len(expected) else [f"{len(found)} events, not {len(expected)}"]
    for number, (one, other) in enumerate(zip(found, expected, strict=False)):
        for name in ("op", "commit_lsn", "change_lsn", "serial", "before", "after"):
            left, right = getattr(one, name), getattr(other, name)
            if isinstance(left, dict) and isinstance(right, dict):
                left = {key: value for key, value in left.items() if value != right.get(key, ...)}
                right = {key: right.get(key, "(absent)") for key in left}
            if left != right:
                said.append(f"event {number} {one.commit_lsn} {name}: {left!r}, not {right!r}")
    return said


def lsn_text(lsn: bytes) -> str:
    """The text form that Debezium uses."""
    digits = lsn.hex()
    return f"{digits[:8]}:{digits[8:16]}:{digits[16:]}"


ORDERS = {
    "direct": "__$start_lsn, __$command_id, __$seqval, __$operation",
    "function": "__$start_lsn, __$seqval, __$operation",
}
"""Debezium's order by its `data.query.mode`: only the direct one reads the command id. They differ
where a statement changes the keys of several rows: all deletes come first by the command id."""


def expected_events(
    connection: pyodbc.Connection,
    instance: str,
    mode: str,
    *,
    first: bytes = bytes(10),
    last: bytes = b"\xff",
) -> list[Event]:
    """The events of a change table's rows with `first` <= `__$start_lsn` < `last`."""
    columns = _columns(connection, instance)
    selected = ", ".join(_selected(name, sql_type) for name, sql_type in columns)
    found = connection.execute(
        "SELECT __$start_lsn, __$seqval, __$operation, __$update_mask, "
        f"{selected} FROM cdc.[{instance}_CT] WHERE __$start_lsn >= ? AND __$start_lsn < ? "
        f"ORDER BY {ORDERS[mode]}",
        first,
        last,
    ).fetchall()
    return list(_pair([(*raw[:3], _row(columns, raw[3], raw[4:], raw[2])) for raw in found]))


def snapshot_rows(connection: pyodbc.Connection, table: str) -> list[Row]:
    """The rows of a source table, in the shape of an event's `after`."""
    columns = _columns(connection, table, schema="dbo", suffix="")
    selected = ", ".join(_selected(name, sql_type) for name, sql_type in columns)
    rows = connection.execute(f"SELECT {selected} FROM dbo.[{table}]").fetchall()
    return [_row(columns, None, raw, 0) for raw in rows]


class Topics:
    """Topics of one partition, made beforehand, read whole as often as one likes."""

    def __init__(self, bootstrap: str, names: Sequence[str]) -> None:
        admin = AdminClient({"bootstrap.servers": bootstrap})
        created = admin.create_topics([NewTopic(name, 1, 1) for name in names])
        for future in created.values():
            future.result(CREATED_WITHIN_S)
        self._consumer = Consumer(
            {"bootstrap.servers": bootstrap, "group.id": "debezium-test", "log_level": 0}
        )

    def close(self) -> None:
        self._consumer.close()

    def size(self, topic: str) -> int:
        """How many messages the topic has."""
        low, high = self._consumer.get_watermark_offsets(TopicPartition(topic, 0), timeout=10)
        return high - low

    def messages(self, topic: str) -> list[tuple[Any, Any]]:
        """Keys and values of all messages."""
        count = self.size(topic)
        self._consumer.assign([TopicPartition(topic, 0, OFFSET_BEGINNING)])
        found: list[tuple[Any, Any]] = []
        while len(found) < count:
            batch = self._consumer.consume(count - len(found), timeout=10)
            assert batch, f"{topic}: {len(found)} of {count} messages came"
            for message in batch:
                assert message.error() is None, message.error()
                found.append((_json(message.key()), _json(message.value())))
        return found

    def events(self, topic: str) -> list[Event]:
        """The topic's events without the tombstones."""
        return [_event(value) for _, value in self.messages(topic) if value is not None]


def _json(raw: bytes | None) -> Any:
    return None if raw is None else json.loads(raw)


def _event(value: dict[str, Any]) -> Event:
    source = value["source"]
    return Event(
        value["op"],
        source["commit_lsn"],
        source["change_lsn"],
        source["event_serial_no"],
        _normal(value["before"]),
        _normal(value["after"]),
    )


def _normal(row: Row | None) -> Row | None:
    if row is None:
        return None
    return {name: _short(value) if isinstance(value, str) else value for name, value in row.items()}


def _short(text: str) -> str:
    """Cuts the zone Z and the zeros that end a fraction: both sides write as many as they like."""
    return _TRAILING_ZEROS.sub(r"\1\2", text).removesuffix("Z")


def _columns(
    connection: pyodbc.Connection, name: str, *, schema: str = "cdc", suffix: str = "_CT"
) -> list[tuple[str, str]]:
    rows = connection.execute(
        "SELECT c.name, t.name FROM sys.columns c "
        "JOIN sys.types t ON t.user_type_id = c.user_type_id "
        "WHERE c.object_id = OBJECT_ID(?) AND c.name NOT LIKE '[_][_]$%' ORDER BY c.column_id",
        f"{schema}.{name}{suffix}",
    ).fetchall()
    assert rows, f"no columns of {schema}.{name}{suffix}"
    return [(row[0], row[1]) for row in rows]


def _selected(name: str, sql_type: str) -> str:
    # As text, because pyodbc cuts 100 ns, and because it is another form on the wire.
    return f"CONVERT(varchar(40), [{name}], 126)" if sql_type in _TEMPORAL else f"[{name}]"


def _row(
    columns: Sequence[tuple[str, str]], mask: bytes | None, values: Sequence[Any], operation: int
) -> Row:
    row = {}
    for ordinal, ((name, sql_type), value) in enumerate(zip(columns, values, strict=True)):
        if value is None and operation in (3, 4) and sql_type in MARKED and mask is not None:
            assert len(mask) == 1, "see MARKED"
            changed = mask[0] >> ordinal & 1
            row[name] = None if changed else _marker(sql_type)
        else:
            row[name] = _as_json(value, sql_type)
    return row


def _marker(sql_type: str) -> str:
    """The marker in a column's JSON: that of bytes is in base 64, as all bytes are."""
    marker = UNAVAILABLE
    return base64.b64encode(marker.encode()).decode() if sql_type == "image" else marker


def _as_json(value: Any, sql_type: str) -> Any:
    match value:
        case bytes():
            return base64.b64encode(value).decode()
        case decimal.Decimal():
            return f"{value:f}"
        case uuid.UUID():
            return str(value).upper()
        case datetime.date() | datetime.time():
            raise AssertionError(f"{sql_type} was not read as text")
        case str():
            return _short(value.upper() if sql_type == "uniqueidentifier" else value)
        case _:
            return value


def _pair(rows: Sequence[tuple[bytes, bytes, int, Row]]) -> Iterator[Event]:
    """Joins the two images of an update; counts events that share both LSNs, as Debezium does."""
    previous: tuple[bytes, bytes] | None = None
    serial = 0
    before: Row | None = None
    for commit, change, operation, row in rows:
        serial = serial + 1 if (commit, change) == previous else 1
        previous = (commit, change)
        lsns = (lsn_text(commit), lsn_text(change), serial)
        match operation:
            case 1:
                yield Event("d", *lsns, row, None)
            case 2:
                yield Event("c", *lsns, None, row)
            case 3:
                before = row
            case 4:
                yield Event("u", *lsns, before, row)
                before = None
            case _:
                raise AssertionError(f"operation {operation}")
