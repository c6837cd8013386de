"""Large values that updates left alone while a chunk waited: the chunk has them."""

from __future__ import annotations

from typing import Any

from tailrace_publisher.change.page import ChangePage
from tailrace_publisher.encode.envelopes.envelope import EnvelopeEncoder
from tailrace_publisher.snapshot.unavailable_values import LatestValues
from tailrace_schemas.events.column_types import ColumnType
from tailrace_schemas.events.envelope import SchemaColumn, TableSchema
from tailrace_schemas.topics.topic_names import TableName
from tests.unit.publisher.snapshot.table_source import START, at

TEXT = ColumnType("nvarchar", length=-1)
SCHEMA = TableSchema(
    TableName("db", "dbo", "t"),
    "dbo_t",
    START,
    (
        SchemaColumn(1, "id", ColumnType("int"), nullable=False, key_ordinal=1),
        SchemaColumn(2, "v", ColumnType("int")),
        SchemaColumn(3, "note", TEXT),
        SchemaColumn(4, "more", TEXT),
    ),
)
NOTE, MORE = b"\x04", b"\x08"
"""Update masks."""
LSN = at(0x50).to_bytes()
ENCODER = EnvelopeEncoder("server", SCHEMA, "p.t", 1, 2)


class Row:
    """One row, as a chunk that was asked for at time 1 has it, and what the stream tells of it."""

    def __init__(self) -> None:
        self.values = LatestValues(SCHEMA)
        self.now = 1
        self.chunk = image(7, 0, "read", "also read")

    def tell(self, operation: int, *values: Any, mask: bytes = b"") -> bool:
        rows = [(LSN, 1, LSN, operation, mask, *values)]
        if operation == 4:
            rows.insert(0, (LSN, 1, LSN, 3, mask, *values))
        identities = [str(row[5]).encode() for row in rows]
        return self.values.add(ChangePage(SCHEMA, rows), identities, self.now)

    def completed(self, since: int = 1) -> bytes | None:
        return self.values.completed(b"7", self.chunk, since, ENCODER, START)


def image(*values: Any) -> bytes:
    return ENCODER.encode_images([values], START)[0][0]


def test_what_updates_left_alone_is_as_the_chunk_has_it():
    row = Row()
    row.tell(4, 7, 1, None, None)
    row.tell(4, 7, 2, None, None)

    assert row.completed() == image(7, 2, "read", "also read")


def test_what_an_event_told_is_not_taken_from_the_chunk():
    row = Row()
    row.tell(4, 7, 1, "told", None, mask=NOTE)
    assert row.completed() == image(7, 1, "told", "also read")
    row.tell(4, 7, 2, None, None)
    assert row.completed() == image(7, 2, "told", "also read")
    row.tell(4, 7, 2, None, None, mask=MORE)  # set to NULL
    assert row.completed() is None, "both were told: its events are enough"


def test_what_was_told_before_the_chunk_was_asked_for_does_not_count():
    row = Row()
    row.tell(4, 7, 1, "told", "told", mask=bytes([NOTE[0] | MORE[0]]))
    row.now = 2
    row.tell(4, 7, 2, None, None)

    assert row.completed(since=1) is None
    assert row.completed(since=2) == image(7, 2, "read", "also read")


def test_a_row_that_came_or_went_is_told_by_its_events():
    row = Row()
    row.tell(1, 7, 0, "read", "also read")
    assert row.completed() is None
    row.tell(2, 7, 1, "new", "new")
    row.tell(4, 7, 2, None, None)
    assert row.completed() is None


def test_an_update_of_what_tells_rows_apart_is_not_known():
    values = LatestValues(SCHEMA)
    rows = [(LSN, 1, LSN, 3, b"", 7, 0, None, None), (LSN, 1, LSN, 4, b"", 8, 0, None, None)]
    assert not values.add(ChangePage(SCHEMA, rows), [b"7", b"8"], 1)


def test_what_is_kept_is_counted_and_forgotten():
    row = Row()
    row.tell(2, 7, 1, "x" * 10_000, "new")
    kept = row.values.size
    assert kept > 10_000
    row.tell(4, 7, 2, None, None)
    assert kept == row.values.size, "the value is still there"
    row.tell(1, 7, 2, "x" * 10_000, "new")
    assert row.values.size == 0
    row.tell(2, 7, 1, "x", "new")
    row.values.forget_others({b"8"})
    assert row.values.size == 0
    row.tell(4, 7, 2, None, None)
    assert row.completed() == image(7, 2, "read", "also read")
