"""JSON events: what fastavro reads of the Avro event, as JsonConverter would write it."""

from __future__ import annotations

import base64
import datetime as dt
import json
import struct
from collections.abc import Mapping
from decimal import Decimal
from typing import Any, Final
from uuid import UUID

import jsonschema
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tailrace_publisher.encode.encoded_events import EncodedRows, joined_rows
from tailrace_publisher.encode.envelopes.json_values import JsonSerializer, JsonWriting
from tailrace_publisher.encode.event_settings import Treatment
from tailrace_schemas.events.envelope import SchemaColumn, TableSchema, key_schema, position_of
from tailrace_schemas.events.flat import as_envelope, value_schema
from tailrace_schemas.events.forms import EventForm
from tailrace_schemas.events.json_schema import json_schema
from tailrace_schemas.events.serializations import JsonDecimals, Serialization
from tailrace_schemas.position.change_position import ChangePosition
from tailrace_schemas.position.lsn import Lsn
from tailrace_schemas.records.dead_letters import DeadLetter
from tests.property.oracle import KEY_ID, PREFIX, VALUE_ID, Oracle
from tests.property.test_encode_flat import FlatOracle
from tests.property.test_encode_roundtrip import (
    COLUMNS,
    Page,
    encode_snapshot,
    encoder_of,
    pages,
    schema_of,
)
from tests.property.values import ALL_TYPES, values

FAST = settings(max_examples=30, deadline=None, suppress_health_check=list(HealthCheck))
EPOCH: Final = dt.datetime(1970, 1, 1)  # noqa: DTZ001 - the column has no zone
FORMS = st.sampled_from([EventForm.DEBEZIUM, EventForm.FLAT])
DECIMALS = st.sampled_from(list(JsonDecimals))


def expected(value: Any, decimals: JsonDecimals) -> Any:
    """A value that fastavro has read, by the conventions of docs/from-debezium.md."""
    match value:
        case Mapping():
            return {name: expected(inner, decimals) for name, inner in value.items()}
        case list():
            return [expected(inner, decimals) for inner in value]
        case bytes():
            return base64.b64encode(value).decode()
        case UUID():
            return str(value)
        case dt.datetime():
            return (value.replace(tzinfo=None) - EPOCH) // dt.timedelta(microseconds=1)
        case dt.date():
            return (value - EPOCH.date()).days
        case dt.time():
            seconds = (value.hour * 60 + value.minute) * 60 + value.second
            return seconds * 1_000_000 + value.microsecond
        case Decimal() if decimals is JsonDecimals.TEXT:
            return f"{value:f}"
        case Decimal():
            sign, digits, exponent = value.as_tuple()
            assert isinstance(exponent, int)
            unscaled = int("".join(map(str, digits))) * (-1 if sign else 1)
            size = (unscaled.bit_length() + 8) >> 3
            return base64.b64encode(unscaled.to_bytes(size, "big", signed=True)).decode()
        case _:
            return value


def serializer_of(
    schema: TableSchema, form: EventForm, serialization: Serialization, decimals: JsonDecimals
) -> JsonSerializer:
    return JsonSerializer(
        JsonWriting(serialization, decimals),
        value_schema(form, PREFIX, schema),
        VALUE_ID,
        key_schema(PREFIX, schema),
        KEY_ID if schema.key_columns else None,
    )


def own_names(event: dict[str, Any], schema: TableSchema, fields: list[str]) -> dict[str, Any]:
    """The event with the columns' own names, wherever they are."""
    own = dict(zip(fields, (column.name for column in schema.columns), strict=True))

    def renamed(found: Mapping[str, Any]) -> dict[str, Any]:
        return {own.get(name, name): value for name, value in found.items()}

    if "source" not in event:
        flat = renamed(event)
        return {**flat, "__unavailable": [own[n] for n in flat["__unavailable"]]}
    images = {n: event[n] and renamed(event[n]) for n in ("before", "after")}
    names = {n: [own[f] for f in event["source"][n]] for n in ("changed", "unavailable")}
    return {**event, **images, "source": {**event["source"], **names}}


@FAST
@given(page=pages(), form=FORMS, decimals=DECIMALS)
def test_every_kind_of_change_is_what_the_avro_event_says(
    page: Page, form: EventForm, decimals: JsonDecimals
) -> None:
    schema = schema_of(COLUMNS)
    whole = Oracle(schema)
    read = whole.read if form is EventForm.DEBEZIUM else FlatOracle(schema).read
    avro = encoder_of(schema, Treatment(form=form)).encode(page.rows, page.commit_ms, 99)
    events = [own_names(read(value), schema, whole.fields) for value in avro.values]
    wanted = [expected(event, decimals) for event in events]

    plain = serializer_of(schema, form, Serialization.JSON, decimals)
    written = plain.values(avro.values)
    assert [json.loads(value) for value in written] == wanted
    assert [list(json.loads(value)) for value in written] == [list(event) for event in events]
    positions = [position_of(json.loads(value)).to_bytes() for value in written]
    assert positions == avro.positions
    keys = plain.keys(avro.keys)
    assert [json.loads(key or b"") for key in keys] == [
        {"code": row[2], "id": row[0]} for row in page.key_rows
    ]

    framed = serializer_of(schema, form, Serialization.JSON_SCHEMA, decimals)
    frame, key_frame = (b"\x00" + number.to_bytes(4, "big") for number in (VALUE_ID, KEY_ID))
    assert framed.values(avro.values) == [frame + value for value in written]
    assert framed.keys(avro.keys) == [key_frame + (key or b"") for key in keys]

    around = serializer_of(schema, form, Serialization.CONNECT_JSON, decimals)
    for value, payload in zip(around.values(avro.values), written, strict=True):
        record = json.loads(value)
        assert list(record) == ["schema", "payload"]
        assert value.endswith(payload + b"}")
        fields = [field["field"] for field in record["schema"]["fields"]]
        assert fields == list(record["payload"])


@FAST
@given(data=st.data(), decimals=DECIMALS, form=FORMS)
@pytest.mark.parametrize("serialization", [Serialization.JSON, Serialization.JSON_SCHEMA])
def test_every_type_is_as_its_schema_says(
    data: st.DataObject, decimals: JsonDecimals, form: EventForm, serialization: Serialization
) -> None:
    columns = (
        SchemaColumn(1, "id", ALL_TYPES[0], nullable=False, key_ordinal=1),
        *(SchemaColumn(n, f"Spalte {n}", kind) for n, kind in enumerate(ALL_TYPES, 2)),
    )
    schema = schema_of(columns)
    row = [data.draw(values(columns[0].type))]
    row += [data.draw(st.none() | values(column.type)) for column in columns[1:]]
    avro = encode_snapshot(
        encoder_of(schema, Treatment(form=form)), [row], Lsn(42, 8, 3), read_ms=1_700, last=False
    )

    (value,) = serializer_of(schema, form, Serialization.JSON, decimals).values(avro.values)

    event = json.loads(value)
    told = json_schema(value_schema(form, PREFIX, schema), serialization, decimals)
    jsonschema.Draft7Validator.check_schema(told)
    jsonschema.Draft7Validator(told).validate(event)
    whole = Oracle(schema)
    read = whole.read if form is EventForm.DEBEZIUM else FlatOracle(schema).read
    wanted = expected(own_names(read(avro.values[0]), schema, whole.fields), decimals)
    reals = [column.name for column in columns if str(column.type) in {"real", "float(24)"}]
    found = event if form is EventForm.FLAT else event["after"]
    for name in reals:
        if found[name] is not None:
            assert struct.pack("f", found[name]) == struct.pack("f", _of(wanted, form)[name])
            found[name] = _of(wanted, form)[name]
    assert event == wanted


def _of(event: dict[str, Any], form: EventForm) -> dict[str, Any]:
    row: dict[str, Any] = event if form is EventForm.FLAT else event["after"]
    return row


def test_a_real_has_few_digits() -> None:
    schema = schema_of((SchemaColumn(1, "r", next(t for t in ALL_TYPES if str(t) == "real")),))
    rows = [[0.1], [16777216.0], [3.4028234663852886e38], [1.401298464324817e-45], [None]]
    avro = encode_snapshot(encoder_of(schema), rows, Lsn(1, 1, 1), read_ms=1, last=False)

    plain = serializer_of(schema, EventForm.DEBEZIUM, Serialization.JSON, JsonDecimals.BASE64)

    told = [json.loads(value)["after"]["r"] for value in plain.values(avro.values)]
    assert told == [0.1, 16777216.0, 3.4028235e38, 1.4013e-45, None]
    assert plain.keys([None]) == [None]


@FAST
@given(page=pages(), decimals=DECIMALS)
def test_cloud_events_have_the_images_and_attributes_of_the_envelope(
    page: Page, decimals: JsonDecimals
) -> None:
    schema, form = schema_of(COLUMNS), EventForm.CLOUDEVENTS
    avro = encoder_of(schema, Treatment(form=form)).encode(page.rows, page.commit_ms, 99)
    plain = serializer_of(schema, EventForm.DEBEZIUM, Serialization.JSON, decimals)
    envelopes = [json.loads(value) for value in plain.values(avro.values)]
    told = json_schema(value_schema(form, PREFIX, schema), Serialization.JSON, decimals)
    judge = jsonschema.Draft7Validator(told)

    written = serializer_of(schema, form, Serialization.JSON, decimals).values(avro.values)

    events = [json.loads(value) for value in written]
    assert [position_of(event).to_bytes() for event in events] == avro.positions
    for event, envelope in zip(events, envelopes, strict=True):
        judge.validate(event)
        assert all(type(v) is str for name, v in event.items() if name != "data")
        assert all(name.isalnum() and name == name.lower() for name in event)
        source = envelope["source"]
        assert event["data"] == {
            name: envelope[name] if name in envelope else source[name]
            for name in ("before", "after", "changed", "unavailable")
        }
        moment = dt.datetime.fromisoformat(event["time"])
        assert (moment.replace(tzinfo=None) - EPOCH) // dt.timedelta(milliseconds=1) == (
            source["ts_ms"]
        )
        shaped = as_envelope(event)
        assert (shaped["op"], shaped["after"]) == (envelope["op"], envelope["after"])
        assert position_of(shaped) == position_of(envelope)
    assert len({event["id"] for event in events}) == len(set(avro.positions))


def test_rows_of_a_snapshot_have_ids_of_their_own() -> None:
    schema, form = schema_of(COLUMNS[:1]), EventForm.CLOUDEVENTS
    rows = [[number] for number in range(20)]
    avro = encode_snapshot(encoder_of(schema), rows, Lsn(1, 1, 1), read_ms=1, last=True)

    written = serializer_of(schema, form, Serialization.JSON, JsonDecimals.TEXT)

    events = [json.loads(value) for value in written.values(avro.values)]
    assert len({event["id"] for event in events}) == len(rows)
    assert [event["iodebeziumsnapshot"] for event in events] == ["true"] * 19 + ["last"]


def test_what_is_put_aside_is_not_written() -> None:
    schema = schema_of(COLUMNS[:1])
    plain = serializer_of(schema, EventForm.DEBEZIUM, Serialization.JSON, JsonDecimals.TEXT)
    encoder = encoder_of(schema, Treatment(serializer=plain))
    part = encode_snapshot(encoder, [[1], [2], [3]], Lsn(1, 1, 1), read_ms=1, last=True)
    position = ChangePosition.of_snapshot(Lsn(1, 1, 1))
    letter = DeadLetter("db.dbo.t", "t.db.dbo.t", position, "RecordTooLarge", "of its size")

    put_aside = part.with_letters({1: letter})

    keys, values = put_aside.written()
    assert keys == [b'{"id":1}', b'{"id":2}', b'{"id":3}']
    assert [value and json.loads(value)["after"]["id"] for value in values] == [1, b"", 3]
    assert put_aside.events().written() == ([keys[0], keys[2]], [values[0], values[2]])
    empty = EncodedRows(part.topic, part.schema_id)
    assert joined_rows([empty, part.slice(1, 3)]).written() == part.slice(1, 3).written()
