"""The sink's columns have what fastavro reads: every type and event, mixed versions."""

from __future__ import annotations

import datetime as dt
import json
from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tailrace_schemas.events.column_types import ColumnType
from tailrace_schemas.events.envelope import SchemaColumn, TableSchema, envelope_schema
from tailrace_schemas.position.lsn import Lsn
from tailrace_sink.columns.avro_plan import NotByColumns
from tailrace_sink.columns.change_columns import ChangeDecoder, Decoded
from tailrace_sink.columns.cursor import Undecodable
from tailrace_sink.columns.spec import Target, Work, Writer
from tailrace_sink.rows.column_targets import target_of
from tailrace_sink.rows.writer_schema import WriterSchema, writer_schema
from tailrace_sink.tables.lake_table import Kind, LakeTable
from tailrace_sink.tables.new_table import new_table
from tests.property.oracle import PREFIX, VALUE_ID, ExpectedEvent, Oracle, position_sum, text_of
from tests.property.test_encode_roundtrip import (
    COLUMNS,
    Page,
    encode_snapshot,
    encoder_of,
    pages,
    same,
    schema_of,
)
from tests.property.values import ALL_TYPES, values

FAST = settings(max_examples=15, deadline=None, suppress_health_check=list(HealthCheck))
FENCE = Lsn(42, 8, 3)


def writer_of(schema: TableSchema, schema_id: int = VALUE_ID) -> WriterSchema:
    avro = json.dumps(envelope_schema(PREFIX, schema))
    return writer_schema(schema_id, json.loads(avro), "t")


def decoder_of(
    tables: Sequence[LakeTable], writers: Sequence[WriterSchema], **cut: str | None
) -> ChangeDecoder:
    targets: list[Target] = [target_of(table, writers, table.path, {}, 32) for table in tables]
    listed = tuple(Writer(writer.schema_id, writer.avro) for writer in writers)
    return ChangeDecoder(Work(listed, tuple(targets), **cut))


def rows_of(decoded: Decoded, target: int = 0) -> list[dict[str, Any]]:
    return [row for batch in decoded.rows[target] for row in batch.to_pylist()]


def in_lake(column: SchemaColumn, value: Any) -> Any:
    """The lake's form of what fastavro reads."""
    if value is None:
        return None
    if isinstance(value, dt.time):
        return ((value.hour * 60 + value.minute) * 60 + value.second) * 10**6 + value.microsecond
    if column.type.name == "uniqueidentifier":
        return str(value)
    if isinstance(value, float) and column.key_ordinal:
        return value + 0.0  # of the two zeros it is the positive one
    if isinstance(value, dt.datetime) and value.tzinfo is not None:
        return value.replace(tzinfo=None)
    return value


def assert_same(row: Mapping[str, Any], expected: Mapping[str, Any]) -> None:
    assert row.keys() == expected.keys()
    for name, value in expected.items():
        assert same(row[name], value), (name, row[name], value)


@pytest.mark.parametrize("lossless", [False, True], ids=["plain", "lossless"])
@pytest.mark.parametrize("column_type", ALL_TYPES, ids=str)
@FAST
@given(data=st.data())
def test_every_type_is_what_fastavro_reads(
    column_type: ColumnType, lossless: bool, data: st.DataObject
) -> None:
    columns = (
        SchemaColumn(1, "id", column_type, nullable=False, key_ordinal=1, lossless=lossless),
        SchemaColumn(2, "v", column_type, lossless=lossless),
    )
    schema = schema_of(columns)
    strategy = values(column_type, lossless=lossless)
    rows = data.draw(st.lists(st.tuples(strategy, st.none() | strategy), min_size=1, max_size=8))
    encoded = encode_snapshot(encoder_of(schema), rows, FENCE, 1_700_000_000_123, True)
    oracle = Oracle(schema)
    decoder = decoder_of([new_table(schema, Kind.MIRROR)], [writer_of(schema)])

    decoded = decoder.decode(pa.array(encoded.values, pa.binary()))

    assert decoded.count == len(rows)
    assert decoded.hashes == sum_of(encoded.positions)
    for row, value in zip(rows_of(decoded), encoded.values, strict=True):
        after = oracle.read(value)["after"]
        for column in columns:
            assert same(row[column.name], in_lake(column, after[column.name]))
        assert row["_cdc_lsn"] == str(FENCE)
        assert row["_cdc_op"] == "r"


def sum_of(positions: Sequence[bytes]) -> int:
    return position_sum(positions) % 2**64


def expected_rows(page: Page, table: LakeTable, schema: TableSchema) -> list[dict[str, Any]]:
    """The rows of an append-only table, by the events alone."""
    found = []
    by_id = {column.column_id: place for place, column in enumerate(schema.columns)}
    for event in page.events:
        image = event.after if event.after is not None else event.before
        assert image is not None
        row: dict[str, Any] = {}
        for column in table.columns:
            place = by_id.get(column.column_id)
            value = None
            if place is not None:
                source = schema.columns[place]
                value = in_lake(source, image[place])
                if column.is_large and source.name in event.unavailable:
                    value = None
            row[column.name] = value
        row |= {
            "_cdc_position": position_of(event),
            "_cdc_lsn": text_of(event.commit_lsn),
            "_cdc_op": event.op,
            "_cdc_commit_time": pa.scalar(event.ts_ms * 1000, pa.timestamp("us", "UTC")).as_py(),
            "_cdc_changed": list(event.changed),
        }
        found.append(row)
    return found


def position_of(event: ExpectedEvent) -> bytes:
    command = event.command_id.to_bytes(4, "big")
    return event.commit_lsn + command + event.seqval + bytes([event.operation])


@FAST
@given(page=pages())
def test_every_kind_of_change_is_a_row_of_the_changelog(page: Page) -> None:
    schema = schema_of(COLUMNS)
    changes, mirror = (new_table(schema, kind) for kind in (Kind.CHANGES, Kind.MIRROR))
    encoded = encoder_of(schema).encode(page.rows, page.commit_ms, processed_ms=99)
    decoder = decoder_of([changes, mirror], [writer_of(schema)])

    decoded = decoder.decode(pa.array(encoded.values, pa.binary()))

    assert (decoded.count, decoded.hashes) == (len(page.events), sum_of(encoded.positions))
    expected = expected_rows(page, changes, schema)
    for row, of_mirror, wanted in zip(rows_of(decoded), rows_of(decoded, 1), expected, strict=True):
        assert_same(row, wanted)
        del wanted["_cdc_changed"]
        assert_same(of_mirror, wanted)


@FAST
@given(page=pages(), data=st.data())
def test_versions_mixed_in_one_batch_are_matched_by_column_id(
    page: Page, data: st.DataObject
) -> None:
    """A column renamed, one widened, one dropped and one added, as the lake has them at last."""
    old = schema_of(COLUMNS)
    renamed = SchemaColumn(3, "new code", ColumnType("nvarchar", length=20), key_ordinal=1)
    wider = SchemaColumn(2, "Größe in €", ColumnType("decimal", precision=38, scale=6))
    added = SchemaColumn(40, "added", ColumnType("date"))
    large = SchemaColumn(4, "the body", ColumnType("nvarchar", length=-1))
    wide_id = SchemaColumn(1, "id", ColumnType("bigint"), nullable=False, key_ordinal=2)
    new = schema_of([wide_id, wider, renamed, added, large, *COLUMNS[5:]])
    table = new_table(new, Kind.CHANGES)
    encoded = encoder_of(old).encode(page.rows, page.commit_ms, processed_ms=99)
    fence_rows = [(7, None, "k", dt.date(2024, 2, 29), "text", *[None] * 6)] * 3
    newer = encoder_of(new)
    newer_values = [
        b"\x00" + (VALUE_ID + 1).to_bytes(4, "big") + value[5:]
        for value in encode_snapshot(newer, fence_rows, FENCE, 5, True).values
    ]
    every = [(0, value) for value in encoded.values] + [(1, value) for value in newer_values]
    mixed = data.draw(st.permutations(every))
    decoder = decoder_of([table], [writer_of(old), writer_of(new, VALUE_ID + 1)])

    decoded = decoder.decode(pa.array([value for _, value in mixed], pa.binary()))

    assert decoded.count == len(every)
    rows = rows_of(decoded)
    by_position = {row["_cdc_position"]: row for row in rows if row["_cdc_op"] != "r"}
    for wanted in expected_rows(page, table, old):
        assert_same(by_position[wanted["_cdc_position"]], wanted)
    of_snapshot = [row for row in rows if row["_cdc_op"] == "r"]
    assert [row["added"] for row in of_snapshot] == [dt.date(2024, 2, 29)] * 3
    assert [row["the body"] for row in of_snapshot] == ["text"] * 3


@FAST
@given(page=pages(), data=st.data())
def test_a_cut_between_two_lsns_is_written_and_everything_is_counted(
    page: Page, data: st.DataObject
) -> None:
    schema = schema_of(COLUMNS)
    lsns = sorted({text_of(event.commit_lsn) for event in page.events})
    after, up_to = (data.draw(st.none() | st.sampled_from(lsns)) for _ in range(2))
    encoded = encoder_of(schema).encode(page.rows, page.commit_ms)
    decoder = decoder_of(
        [new_table(schema, Kind.CHANGES)], [writer_of(schema)], after_lsn=after, up_to_lsn=up_to
    )

    decoded = decoder.decode(pa.array(encoded.values, pa.binary()))

    assert decoded.count == len(page.events)
    expected = [
        text_of(event.commit_lsn)
        for event in page.events
        if (after is None or text_of(event.commit_lsn) > after)
        and (up_to is None or text_of(event.commit_lsn) <= up_to)
    ]
    assert [row["_cdc_lsn"] for row in rows_of(decoded)] == expected


@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
@given(page=pages(), data=st.data())
def test_damaged_messages_are_refused_or_decoded_within_their_bytes(
    page: Page, data: st.DataObject
) -> None:
    """Every error is Undecodable; a message that is cut or longer is never taken."""
    schema = schema_of(COLUMNS)
    good = encoder_of(schema).encode(page.rows, page.commit_ms).values
    at = data.draw(st.integers(0, len(good) - 1))
    message = good[at]
    kind = data.draw(st.sampled_from(["cut", "longer", "bytes", "garbage"]))
    if kind == "cut":
        message = message[: data.draw(st.integers(0, len(message) - 1))]
    elif kind == "longer":
        message += data.draw(st.binary(min_size=1, max_size=9))
    elif kind == "garbage":
        message = message[:5] + data.draw(st.binary(max_size=60))
    else:
        damaged = bytearray(message)
        for _ in range(data.draw(st.integers(1, 4))):
            place = data.draw(st.integers(5, len(message) - 1))
            damaged[place] = data.draw(st.integers(0, 255))
        message = bytes(damaged)
    decoder = decoder_of([new_table(schema, Kind.CHANGES)], [writer_of(schema)])

    try:
        decoded = decoder.decode(pa.array([*good[:at], message, *good[at + 1 :]], pa.binary()))
    except Undecodable:
        return
    assert kind not in {"cut", "longer"}
    for batch in decoded.rows[0]:
        batch.validate(full=True)
    alone = decoder.decode(pa.array([message], pa.binary()))
    rows = rows_of(decoded)
    assert repr(rows[at : at + 1]) == repr(rows_of(alone)), "no other message's bytes are read"


def test_messages_of_unknown_schemas_are_refused() -> None:
    schema = schema_of(COLUMNS[:1])
    (value,) = encode_snapshot(encoder_of(schema), [(1,)], FENCE, 5, True).values
    decoder = decoder_of([new_table(schema, Kind.MIRROR)], [writer_of(schema)])
    for other in (b"", b"\x00\x00", b"\x00" + bytes(4) + value[5:], b"\x01" + value[1:]):
        with pytest.raises(Undecodable):
            decoder.decode(pa.array([value, other], pa.binary()))
    assert decoder.decode(pa.array([], pa.binary())).count == 0


def test_columns_that_only_spark_casts_are_left_to_it() -> None:
    schema = schema_of(COLUMNS[:2])
    text = schema_of([SchemaColumn(1, "id", ColumnType("nvarchar", length=9)), COLUMNS[1]])
    with pytest.raises(NotByColumns):
        decoder_of([new_table(text, Kind.EVENTS)], [writer_of(schema)])
