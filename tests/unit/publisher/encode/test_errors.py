"""What does not fit is an error that names table, column and position; nothing becomes NULL."""

from __future__ import annotations

import datetime as dt
import time
from decimal import Decimal
from typing import Any

import pytest
import structlog

from tailrace_publisher.encode.columns.varint import encode_long
from tailrace_publisher.encode.envelopes.envelope import EnvelopeEncoder
from tailrace_publisher.encode.event_settings import Treatment
from tailrace_publisher.errors import EncodeError
from tailrace_publisher.options.events import Surrogates
from tailrace_schemas.events.column_types import ColumnType, UnsupportedType
from tailrace_schemas.events.envelope import SchemaColumn, TableSchema
from tailrace_schemas.position.lsn import Lsn
from tailrace_schemas.topics.topic_names import TableName

COMMIT = Lsn(1, 2, 3).to_bytes()
SEQVAL = Lsn(1, 2, 2).to_bytes()
COMMIT_MS = {COMMIT: 1_000}


def encoder(*columns: SchemaColumn, surrogates: Surrogates = Surrogates.FAIL) -> EnvelopeEncoder:
    schema = TableSchema(TableName("db", "dbo", "t"), "dbo_t", Lsn(1, 1, 1), columns)
    key_id = 2 if schema.key_columns else None
    return EnvelopeEncoder("s", schema, "p.db.dbo.t", 1, key_id, Treatment(surrogates))


def row(operation: int, *values: Any, seqval: bytes = SEQVAL) -> tuple[Any, ...]:
    return (COMMIT, 1, seqval, operation, b"\x01", *values)


@pytest.mark.parametrize(
    ("column_type", "value"),
    [
        (ColumnType("int"), 2**31),
        (ColumnType("int"), -(2**31) - 1),
        (ColumnType("bigint"), 2**63),
        (ColumnType("bigint"), -(2**63) - 1),
        (ColumnType("int"), 1.0),
        (ColumnType("int"), "1"),
        (ColumnType("bit"), "yes"),
        (ColumnType("real"), 1e39),
        (ColumnType("float", precision=53), "1.0"),
        (ColumnType("decimal", precision=5, scale=2), Decimal("1000.00")),
        (ColumnType("decimal", precision=5, scale=2), Decimal("1.234")),
        (ColumnType("decimal", precision=38, scale=0), Decimal("1" * 61 + ".5")),
        (ColumnType("decimal", precision=5, scale=2), Decimal("NaN")),
        (ColumnType("decimal", precision=5, scale=2), Decimal("Infinity")),
        (ColumnType("money"), 1.5),
        (ColumnType("nvarchar", length=5), b"bytes"),
        (ColumnType("nvarchar", length=5), "\ud800"),
        (ColumnType("varbinary", length=5), "text"),
        (ColumnType("date"), dt.datetime(2026, 1, 2, 3, 4)),  # noqa: DTZ001
        (ColumnType("datetime2", scale=7), dt.datetime(2026, 1, 2, tzinfo=dt.UTC)),
        (ColumnType("datetime2", scale=7), dt.date(2026, 1, 2)),
        (ColumnType("time", scale=7), "12:00:00"),
        (ColumnType("datetimeoffset", scale=7), dt.datetime(2026, 1, 2, tzinfo=dt.UTC)),
        (ColumnType("uniqueidentifier"), "6F9619FF-8B86-D011-B42D-00C04FC964FF"),
    ],
    ids=lambda argument: repr(argument)[:30] if not isinstance(argument, ColumnType) else None,
)
def test_a_value_that_does_not_fit_names_its_place(column_type: ColumnType, value: Any) -> None:
    columns = (SchemaColumn(1, "id", ColumnType("int")), SchemaColumn(2, "Amount", column_type))
    rows = [row(2, 1, None, seqval=Lsn(1, 2, 1).to_bytes()), row(2, 2, value)]

    with pytest.raises(EncodeError) as caught:
        encoder(*columns).encode(rows, COMMIT_MS)

    error = caught.value
    assert (error.table, error.column) == ("db.dbo.t", "Amount")
    assert error.position == "00000001:00000002:0003/1/00000001:00000002:0002/2"
    assert str(column_type) in str(error)
    assert not error.retryable


def test_null_in_a_key_column_declared_not_null() -> None:
    column = SchemaColumn(1, "id", ColumnType("int"), nullable=False, key_ordinal=1)
    with pytest.raises(EncodeError, match=r"column id.*NULL in a key column"):
        encoder(column).encode([row(2, None)], COMMIT_MS)


def test_a_long_value_is_not_printed_whole() -> None:
    column = SchemaColumn(1, "v", ColumnType("varbinary", length=-1))
    with pytest.raises(EncodeError) as caught:
        encoder(column).encode([row(2, "x" * 5_000)], COMMIT_MS)
    assert len(str(caught.value)) < 400


def test_snapshot_errors_name_the_fence() -> None:
    column = SchemaColumn(1, "v", ColumnType("int"))
    with pytest.raises(EncodeError, match="column v, position 00000009:00000009:0009/0/"):
        encoder(column).encode_images([("x",)], Lsn(9, 9, 9))


@pytest.mark.parametrize(
    "operations",
    [(3,), (4,), (3, 3), (3, 2), (4, 3), (2, 4), (3, 4, 4)],
)
def test_half_an_update_is_an_error(operations: tuple[int, ...]) -> None:
    rows = [row(operation, 1) for operation in operations]
    with pytest.raises(EncodeError, match="operation 3 row is not directly followed"):
        encoder(SchemaColumn(1, "v", ColumnType("int"))).encode(rows, COMMIT_MS)


def test_halves_of_two_updates_are_not_one() -> None:
    rows = [row(3, 1), row(4, 2, seqval=Lsn(1, 2, 3).to_bytes())]
    with pytest.raises(EncodeError, match="operation 3 row is not directly followed"):
        encoder(SchemaColumn(1, "v", ColumnType("int"))).encode(rows, COMMIT_MS)


@pytest.mark.parametrize("operation", [0, 5, 6])
def test_an_unknown_operation_is_an_error(operation: int) -> None:
    with pytest.raises(EncodeError, match="not an operation"):
        encoder(SchemaColumn(1, "v", ColumnType("int"))).encode([row(operation, 1)], COMMIT_MS)


def test_a_missing_commit_time_is_an_error() -> None:
    with pytest.raises(EncodeError, match="lsn_time_mapping"):
        encoder(SchemaColumn(1, "v", ColumnType("int"))).encode([row(2, 1)], {})


def test_a_row_of_another_shape_is_an_error() -> None:
    with pytest.raises(EncodeError, match=r"rows have 2 values.*has 1 columns"):
        encoder(SchemaColumn(1, "v", ColumnType("int"))).encode([row(2, 1, 2)], COMMIT_MS)


def test_a_type_without_avro_form_is_refused_at_once() -> None:
    with pytest.raises(UnsupportedType, match="sql_variant"):
        encoder(SchemaColumn(1, "v", ColumnType("sql_variant")))


def test_key_and_key_schema_go_together() -> None:
    schema = TableSchema(
        TableName("db", "dbo", "t"),
        "dbo_t",
        Lsn(1, 1, 1),
        (SchemaColumn(1, "id", ColumnType("int"), nullable=False, key_ordinal=1),),
    )
    with pytest.raises(ValueError, match="do not agree"):
        EnvelopeEncoder("s", schema, "t", 1, None)


def test_an_empty_page_gives_no_events() -> None:
    one = encoder(SchemaColumn(1, "v", ColumnType("int")))
    assert len(one.encode([], {})) == 0
    assert one.encode_images([], Lsn(1, 1, 1)) == ([], [])
    assert len(one.snapshot_events([], [], Lsn(1, 1, 1), 1, last=True)) == 0


@pytest.mark.parametrize("zone", ["UTC", "America/New_York", "Asia/Kathmandu"])
def test_the_zone_of_the_machine_does_not_matter(
    zone: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    column = SchemaColumn(1, "v", ColumnType("datetime2", scale=7), nullable=False, key_ordinal=1)
    monkeypatch.setenv("TZ", zone)
    time.tzset()
    try:
        moment = dt.datetime(2026, 3, 8, 2, 30)  # noqa: DTZ001 - does not exist in New York
        encoded = encoder(column).encode([row(2, moment)], COMMIT_MS)
    finally:
        monkeypatch.undo()
        time.tzset()
    micros = 20_520 * 86_400_000_000 + 9_000_000_000
    assert encoded.keys == [b"\x00\x00\x00\x00\x02" + encode_long(micros)]


TEXT = SchemaColumn(2, "text", ColumnType("nvarchar", length=50))
BROKEN = ["whole \U0001f600", None, "half \ud83d", "\udc00 low", "both \ude00\ud83d"]


@pytest.mark.parametrize(
    ("policy", "expected"),
    [
        (
            Surrogates.REPLACE,
            ["whole \U0001f600", None, "half \ufffd", "\ufffd low", "both \ufffd\ufffd"],
        ),
        (Surrogates.NULL, ["whole \U0001f600", None, None, None, None]),
    ],
)
def test_half_pairs_become_what_the_option_says(policy: Surrogates, expected: list[str | None]):
    columns = (SchemaColumn(1, "id", ColumnType("int"), key_ordinal=1), TEXT)
    broken = encoder(*columns, surrogates=policy)
    strict = encoder(*columns)

    def rows(texts: list[str | None]) -> list[tuple[Any, ...]]:
        return [row(2, number, text) for number, text in enumerate(texts)]

    with structlog.testing.capture_logs() as logs:
        found = [broken.encode(rows(BROKEN), COMMIT_MS).values for _ in range(2)]
        snapshot = broken.twin().encode_images([(1, text) for text in BROKEN], Lsn(1, 2, 3))
    assert found == [strict.encode(rows(expected), COMMIT_MS).values] * 2
    assert snapshot == strict.encode_images([(1, text) for text in expected], Lsn(1, 2, 3))
    assert [(log["event"], log["column"]) for log in logs] == [("half_surrogate_pairs", "text")]
    assert broken.twin().encode(rows(BROKEN), COMMIT_MS).values == found[0]
    with pytest.raises(EncodeError, match="column text"):
        strict.encode(rows(BROKEN), COMMIT_MS)


@pytest.mark.parametrize("policy", Surrogates)
def test_half_a_pair_in_a_key_is_refused_whatever_the_option_says(policy: Surrogates):
    key = SchemaColumn(1, "code", ColumnType("nvarchar", length=5), key_ordinal=1)

    with pytest.raises(EncodeError, match="column code"):
        encoder(key, surrogates=policy).encode([row(2, "\ud83d")], COMMIT_MS)


@pytest.mark.parametrize("name", ["hierarchyid", "geometry", "geography", "xml"])
def test_a_large_value_that_an_update_left_alone_is_unavailable(name: str):
    columns = (
        SchemaColumn(1, "id", ColumnType("int"), key_ordinal=1),
        SchemaColumn(2, "place", ColumnType(name)),
    )
    rows = [(COMMIT, 1, SEQVAL, operation, b"\x01", 1, None) for operation in (3, 4)]
    unchanged = encoder(*columns).encode(rows, COMMIT_MS).values[0]
    set_to_null = (
        encoder(*columns)
        .encode([(*row[:4], b"\x02", *row[5:]) for row in rows], COMMIT_MS)
        .values[0]
    )

    assert unchanged.count(b"\x0aplace") == 1  # in unavailable
    assert set_to_null.count(b"\x0aplace") == 1  # in changed
    assert unchanged.index(b"\x0aplace") != set_to_null.index(b"\x0aplace")
