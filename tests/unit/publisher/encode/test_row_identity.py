"""Rows are told apart by their identity's values, whatever these are."""

from tailrace_publisher.encode.row_identity import RowIdentity
from tailrace_schemas.events.column_types import ColumnType
from tailrace_schemas.events.envelope import SchemaColumn, TableSchema
from tailrace_schemas.position.lsn import Lsn
from tailrace_schemas.topics.topic_names import TableName

SCHEMA = TableSchema(
    TableName("db", "dbo", "t"),
    "dbo_t",
    Lsn(1, 1, 1),
    (
        SchemaColumn(1, "code", ColumnType("nvarchar", length=20), nullable=False),
        SchemaColumn(2, "number", ColumnType("int"), nullable=False),
        SchemaColumn(3, "note", ColumnType("nvarchar", length=20)),
    ),
)


def test_rows_are_the_same_by_their_identity_alone():
    identity = RowIdentity(SCHEMA, ("number", "code"))

    read = identity.of([("a", 1, "x"), ("b", 1, "x"), ("a", 12, "x")])
    told = identity.of(
        [(b"", 1, b"", 2, b"", "b", 1, "another"), (b"", 1, b"", 2, b"", "a", 2, "")], 5
    )

    assert read is not None
    assert told is not None
    assert len(set(read)) == 3
    assert told[0] == read[1]
    assert told[1] not in read


def test_without_columns_that_tell_them_apart_all_rows_are_one():
    assert RowIdentity(SCHEMA, ()).of([("a", 1, "x"), ("b", 2, "y")]) == [b"", b""]


def test_a_version_without_the_columns_tells_nothing():
    assert RowIdentity(SCHEMA, ("gone",)).of([("a", 1, "x")]) is None


def test_half_a_surrogate_pair_is_told_from_others():
    identity = RowIdentity(SCHEMA, ("code",))
    halves = [(f"a{chr(0xD800)}", 1, ""), (f"a{chr(0xD801)}", 1, ""), ("a", 1, "")]

    together = identity.of(halves)
    assert together is not None
    assert len(set(together)) == 3
    assert together == [bytes(one) for row in halves for one in identity.of([row]) or ()]
