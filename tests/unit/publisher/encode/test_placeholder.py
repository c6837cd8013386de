"""The placeholder of values that change tables do not hold: where it stands, and where not."""

from __future__ import annotations

from tailrace_publisher.encode.columns.placeholder import Placeholder
from tailrace_schemas.events.column_types import MAX, ColumnType
from tailrace_schemas.events.envelope import SchemaColumn, TableSchema
from tailrace_schemas.position.lsn import Lsn
from tailrace_schemas.topics.topic_names import TableName

TYPES = ("int", "nvarchar", "varbinary", "text", "image", "hierarchyid")
LARGE = {"nvarchar", "varbinary"}
DELETE, INSERT, BEFORE, AFTER = 1, 2, 3, 4
NOTHING, EVERYTHING = b"\x00", b"\x3f"


def filled(operation: int, mask: bytes, value: object = None) -> list[object]:
    columns = tuple(
        SchemaColumn(place, f"c{place}", ColumnType(name, length=MAX if name in LARGE else 0))
        for place, name in enumerate(TYPES, 1)
    )
    schema = TableSchema(TableName("db", "dbo", "t"), "dbo_t", Lsn(1, 1, 1), columns)
    found = Placeholder(schema, "gone \u2713").filled([[value]] * len(TYPES), [operation], [mask])
    return [values[0] for values in found]


def test_of_updates_it_stands_in_large_columns_that_were_left_alone():
    raw = "gone \u2713".encode()
    expected = [None, "gone \u2713", raw, "gone \u2713", raw, None]
    assert filled(AFTER, NOTHING) == filled(BEFORE, NOTHING) == expected


def test_what_was_changed_to_null_is_null():
    assert filled(AFTER, EVERYTHING) == filled(INSERT, EVERYTHING) == [None] * len(TYPES)


def test_of_deletes_it_stands_in_columns_of_the_old_types():
    raw = "gone \u2713".encode()
    assert filled(DELETE, EVERYTHING) == [None, None, None, "gone \u2713", raw, None]


def test_values_stay():
    assert filled(AFTER, NOTHING, "there") == ["there"] * len(TYPES)
