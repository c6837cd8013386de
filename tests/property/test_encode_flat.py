"""Flat events: what fastavro writes of them, and what Debezium makes of our envelopes."""

from __future__ import annotations

import io
from collections.abc import Mapping
from typing import Any

import fastavro
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tailrace_publisher.encode.columns.column_forms import Declined
from tailrace_publisher.encode.event_kinds import Kind
from tailrace_publisher.encode.event_settings import Treatment
from tailrace_schemas.events.envelope import TableSchema, position_of, position_only
from tailrace_schemas.events.flat import as_envelope, flat_schema
from tailrace_schemas.events.forms import EventForm
from tailrace_schemas.position.change_position import ChangePosition
from tailrace_schemas.position.lsn import Lsn
from tests.property.oracle import PREFIX, VALUE_ID, ExpectedEvent, Oracle, text_of
from tests.property.test_encode_blocks import (
    COMMIT,
    KEY,
    TEXT,
    assert_same,
    block_encoder,
    block_of,
    narrow,
    row,
)
from tests.property.test_encode_roundtrip import (
    COLUMNS,
    IMAGES,
    Page,
    encode_snapshot,
    encoder_of,
    pages,
    schema_of,
)

FAST = settings(max_examples=30, deadline=None, suppress_health_check=list(HealthCheck))
FLAT = Treatment(form=EventForm.FLAT)


class FlatOracle:
    """fastavro over the flat schema of one table version."""

    def __init__(self, schema: TableSchema) -> None:
        self.avro = flat_schema(PREFIX, schema)
        self.parsed = fastavro.parse_schema(self.avro)
        self._names = [field["name"] for field in self.avro["fields"] if "sqlName" in field]

    def value(self, event: ExpectedEvent) -> bytes:
        image = event.before if event.op == "d" else event.after
        assert image is not None
        position = (
            event.commit_lsn
            + event.command_id.to_bytes(4, "big")
            + event.seqval
            + bytes([event.operation])
        )
        record = dict(zip(self._names, image, strict=True)) | {
            "__op": event.op,
            "__deleted": "true" if event.op == "d" else "false",
            "__commit_lsn": text_of(event.commit_lsn),
            "__source_ts_ms": event.ts_ms,
            "__position": position.hex(),
            "__unavailable": list(event.unavailable),
            "__ts_ms": event.processed_ms,
        }
        out = io.BytesIO()
        fastavro.schemaless_writer(out, self.parsed, record)
        return b"\x00" + VALUE_ID.to_bytes(4, "big") + out.getvalue()

    def read(self, raw: bytes, reader: Any = None) -> dict[str, Any]:
        stream = io.BytesIO(raw[5:])
        record = fastavro.schemaless_reader(stream, self.parsed, reader)
        assert stream.read() == b"", "bytes are left over"
        assert isinstance(record, dict)
        return record


def flattened(envelope: Mapping[str, Any]) -> dict[str, Any]:
    """ExtractNewRecordState, by its documentation.

    delete.tombstone.handling.mode=rewrite and
    add.fields=op,commit_lsn,source.ts_ms,unavailable,ts_ms.
    """
    is_delete = envelope["op"] == "d"
    source = envelope["source"]
    return {
        **envelope["before" if is_delete else "after"],
        "__deleted": "true" if is_delete else "false",
        "__op": envelope["op"],
        "__commit_lsn": source["commit_lsn"],
        "__source_ts_ms": source["ts_ms"],
        "__unavailable": source["unavailable"],
        "__ts_ms": envelope["ts_ms"],
    }


@FAST
@given(page=pages())
def test_every_kind_of_change_is_what_fastavro_writes(page: Page) -> None:
    schema = schema_of(COLUMNS)
    oracle = FlatOracle(schema)

    encoded = encoder_of(schema, FLAT).encode(page.rows, page.commit_ms, processed_ms=99)

    assert encoded.values == [oracle.value(event) for event in page.events]
    envelopes = encoder_of(schema).encode(page.rows, page.commit_ms, processed_ms=99)
    assert encoded.keys == envelopes.keys
    assert encoded.positions == envelopes.positions
    assert encoded.deletes == envelopes.deletes


@FAST
@given(page=pages())
def test_it_is_what_debezium_makes_of_the_envelope(page: Page) -> None:
    schema = schema_of(COLUMNS)
    flat, whole = FlatOracle(schema), Oracle(schema)

    flats = encoder_of(schema, FLAT).encode(page.rows, page.commit_ms, processed_ms=99)
    envelopes = encoder_of(schema).encode(page.rows, page.commit_ms, processed_ms=99)

    for value, envelope in zip(flats.values, map(whole.read, envelopes.values), strict=True):
        event = flat.read(value)
        position = event.pop("__position")
        assert repr(sorted(event.items())) == repr(sorted(flattened(envelope).items()))
        assert ChangePosition.from_bytes(bytes.fromhex(position)) == position_of(envelope)


@FAST
@given(page=pages())
def test_a_reader_finds_the_position_and_the_shape_of_an_envelope(page: Page) -> None:
    schema = schema_of(COLUMNS)
    oracle, whole = FlatOracle(schema), Oracle(schema)
    only = fastavro.parse_schema(position_only(oracle.avro))

    flats = encoder_of(schema, FLAT).encode(page.rows, page.commit_ms)
    envelopes = encoder_of(schema).encode(page.rows, page.commit_ms)

    found = [position_of(oracle.read(value, only)) for value in flats.values]
    assert [position.to_bytes() for position in found] == flats.positions
    digits = [oracle.read(value)["__position"] for value in flats.values]
    assert sorted(digits) == [position.hex() for position in sorted(flats.positions)]
    for value, envelope in zip(flats.values, map(whole.read, envelopes.values), strict=True):
        shaped = as_envelope(oracle.read(value))
        assert position_of(shaped) == position_of(envelope)
        assert shaped.keys() == envelope.keys()
        assert shaped["source"].items() <= envelope["source"].items()
        assert repr(shaped["after"]) == repr(envelope["after"])
        if envelope["op"] != "u":
            assert repr(shaped["before"]) == repr(envelope["before"])
        assert as_envelope(envelope) is envelope


@FAST
@given(rows=st.lists(IMAGES, max_size=4), last=st.booleans())
def test_snapshot_rows_are_what_fastavro_writes(rows: list[Any], last: bool) -> None:
    schema = schema_of(COLUMNS)
    oracle = FlatOracle(schema)
    fence = Lsn(42, 8, 3)

    encoded = encode_snapshot(encoder_of(schema, FLAT), rows, fence, read_ms=1_700, last=last)

    def expected(image: Any) -> ExpectedEvent:
        return ExpectedEvent(
            op="r",
            before=None,
            after=image,
            commit_lsn=fence.to_bytes(),
            command_id=0,
            seqval=bytes(10),
            operation=0,
            ts_ms=1_700,
            processed_ms=1_700,
        )

    assert encoded.values == [oracle.value(expected(image)) for image in rows]


@FAST
@given(
    page=pages(),
    data=st.data(),
    skipped=st.sets(st.sampled_from(list(Kind))),
    processed_ms=st.none() | st.integers(0, 2**45),
)
def test_blocks_have_the_references_bytes(
    page: Page, data: st.DataObject, skipped: set[Kind], processed_ms: int | None
) -> None:
    schema, rows = narrow(page)
    treatment = Treatment(skipped=skipped, form=EventForm.FLAT)
    encoder = block_encoder(schema, treatment)
    cuts = sorted(data.draw(st.sets(st.integers(1, len(rows)))) | {len(rows)})
    starts = [0, *cuts[:-1]]
    blocks = [block_of(encoder, rows[a:b]) for a, b in zip(starts, cuts, strict=True)]

    encoded = encoder.encode(blocks, page.commit_ms, processed_ms)

    reference = encoder_of(schema, treatment)
    assert_same(encoded, reference.encode(rows, page.commit_ms, processed_ms))


def test_a_commit_without_time_is_declined() -> None:
    encoder = block_encoder(schema_of([KEY, TEXT]), FLAT)

    with pytest.raises(Declined):
        encoder.encode([block_of(encoder, [row()])], {COMMIT[:-1] + b"\x02": 1})
