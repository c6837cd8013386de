"""Debezium's transformation and converter over our events, as Kafka Connect reads them.

ExtractNewRecordState is what most of Debezium's users have behind the connector. It finds out
whether what we say is an envelope is one to it, and its rows are compared with flat events; what
CloudEventsConverter makes of envelopes is compared with our CloudEvents.
"""

from __future__ import annotations

import datetime as dt
import json
from collections.abc import Iterator, Mapping
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyspark
import pytest

from emulator.tests.clients.jvm import jvm_with
from tailrace_compose.local import jars
from tailrace_publisher.encode.envelopes.envelope import EnvelopeEncoder
from tailrace_publisher.encode.envelopes.version_schemas import VersionSchemas
from tailrace_publisher.encode.event_settings import Treatment
from tailrace_publisher.options.publisher_config import PublisherConfig
from tailrace_schemas.events.column_types import ColumnType
from tailrace_schemas.events.envelope import SchemaColumn, TableSchema
from tailrace_schemas.events.forms import EventForm
from tailrace_schemas.events.framing import FRAME_BYTES
from tailrace_schemas.position.lsn import Lsn
from tailrace_schemas.topics.escaped_names import avro_name
from tailrace_schemas.topics.topic_names import TableName
from tests.least_options import LEAST

pytestmark = pytest.mark.slow("starts a Java virtual machine with Kafka Connect's classes")

GROUPS: tuple[jars.Group, ...] = ("connect", "debezium", "converter")
TOPIC = "shop.db.dbo.t"
ADDED = {
    "delete.tombstone.handling.mode": "rewrite",
    "add.fields": "op,commit_lsn,source.ts_ms,unavailable,ts_ms",
}
COLUMNS = (
    SchemaColumn(1, "id", ColumnType("int"), nullable=False, key_ordinal=1),
    SchemaColumn(2, "the price", ColumnType("decimal", precision=9, scale=2)),
    SchemaColumn(3, "small", ColumnType("smallint")),
    SchemaColumn(4, "at", ColumnType("datetime2", scale=6)),
    SchemaColumn(5, "day", ColumnType("date")),
    SchemaColumn(6, "raw", ColumnType("varbinary", length=9)),
    SchemaColumn(7, "zoned", ColumnType("datetimeoffset", scale=7)),
    SchemaColumn(8, "note", ColumnType("text")),
)
SCHEMA = TableSchema(TableName("db", "dbo", "t"), "dbo_t", Lsn(1, 1, 1), COLUMNS)
NULLS = (None,) * (len(COLUMNS) - 1)
ROW = (
    Decimal("-0.01"),
    -7,
    dt.datetime(2026, 11, 22, 1, 2, 3, 456_789),  # noqa: DTZ001 - the column has no zone
    dt.date(1969, 12, 31),
    b"\x00\xff",
    "2026-11-22T10:11:12.1234567+05:30",
    "n",
)
COMMIT = Lsn(5, 1, 9).to_bytes()
ALL = b"\xff"


def change_rows() -> list[tuple[Any, ...]]:
    """One change of each kind, and an update of the key."""

    def row(number: int, operation: int, mask: bytes, *values: Any) -> tuple[Any, ...]:
        return (COMMIT, number, Lsn(5, 1, number).to_bytes(), operation, mask, *values)

    return [
        row(1, 2, ALL, 1, *ROW),
        row(2, 3, b"\x02", 1, *ROW[:-1], None),
        row(2, 4, b"\x02", 1, Decimal("2.50"), *ROW[1:-1], None),
        row(3, 1, ALL, 1, *ROW[:-1], None),
        row(4, 3, b"\x01", 2, *NULLS),
        row(4, 4, b"\x01", 3, *NULLS),
    ]


def published(**options: Any) -> tuple[dict[str, Any], list[bytes | None], list[bytes]]:
    """The registered schema of the events, and keys and values as they are sent."""
    config = PublisherConfig.load({**LEAST, "prefix": "shop", **options})
    schemas = VersionSchemas.of(config, SCHEMA)
    treatment = Treatment(form=config.event_form, serializer=schemas.serializer(1, 2))
    encoder = EnvelopeEncoder("shop", SCHEMA, TOPIC, 1, 2, treatment)
    rows = encoder.encode(change_rows(), {COMMIT: 1_700_000_000_123}, 1_700_000_000_999)
    return schemas.value, *rows.written()


class Connect:
    """A converter and the transformation in a virtual machine.

    Args:
        gateway: of the machine.
        has_schemas: ``schemas.enable`` of the converter.
    """

    def __init__(self, gateway: Any, *, has_schemas: bool) -> None:
        self._jvm = gateway.jvm
        self._json = self._jvm.org.apache.kafka.connect.json
        self._converters = []
        for is_key in (True, False):
            converter = self._json.JsonConverter()
            converter.configure({"schemas.enable": str(has_schemas).lower()}, is_key)
            self._converters.append(converter)
        self._plain = self._json.JsonConverter()
        self._plain.configure({"schemas.enable": "false"}, False)
        self.extract = self._jvm.io.debezium.transforms.ExtractNewRecordState()
        self.extract.configure(ADDED)

    def record(self, key: bytes, value: bytes) -> Any:
        """A record as a sink connector gets it."""
        of_key, of_value = (
            converter.toConnectData(TOPIC, raw)
            for converter, raw in zip(self._converters, (key, value), strict=True)
        )
        return self._jvm.org.apache.kafka.connect.sink.SinkRecord(
            TOPIC, 0, of_key.schema(), of_key.value(), of_value.schema(), of_value.value(), 0
        )

    def avro_row(self, schema: Mapping[str, Any], value: bytes) -> tuple[dict[str, Any], Any]:
        """The same of a framed Avro value, without its key."""
        avro = self._jvm.org.apache.avro
        parsed = avro.Schema.Parser().parse(json.dumps(schema))
        payload = avro.io.DecoderFactory.get().binaryDecoder(value[FRAME_BYTES:], None)
        found = avro.generic.GenericDatumReader(parsed).read(None, payload)
        data = self._jvm.io.apicurio.registry.utils.converter.avro.AvroData(10)
        of_value = data.toConnectData(parsed, found)
        return self._extracted(
            self._jvm.org.apache.kafka.connect.sink.SinkRecord(
                TOPIC, 0, None, None, of_value.schema(), of_value.value(), 0
            )
        )

    def row(self, key: bytes, value: bytes) -> tuple[dict[str, Any], Any]:
        """What the transformation makes of a record, as JSON without schema; and its schema."""
        return self._extracted(self.record(key, value))

    def _extracted(self, record: Any) -> tuple[dict[str, Any], Any]:
        made = self.extract.apply(record)
        raw = self._plain.fromConnectData(TOPIC, made.valueSchema(), made.value())
        return json.loads(bytes(raw)), made.valueSchema()


@pytest.fixture(scope="module")
def gateway() -> Iterator[Any]:
    """A virtual machine with Kafka Connect and Debezium's transformations."""
    found = [jar for group in GROUPS for jar in jars.ensure(group)]
    of_spark = Path(pyspark.__file__).parent / "jars"
    found += of_spark.glob("avro-[0-9]*.jar")
    with jvm_with(*{jar.name: jar for jar in found}.values()) as machine:
        yield machine


TYPES = {
    "id": ("int32", None),
    "the price": ("bytes", "org.apache.kafka.connect.data.Decimal"),
    "small": ("int16", None),
    "at": ("int64", "io.debezium.time.MicroTimestamp"),
    "day": ("int32", "org.apache.kafka.connect.data.Date"),
    "raw": ("bytes", None),
    "zoned": ("string", "io.debezium.time.ZonedTimestamp"),
    "note": ("string", None),
}
LISTS = ("changed", "unavailable")
UNTOLD = {"small": ("int32", None), "at": ("int64", None), "zoned": ("string", None)}


def types(schema: Any) -> dict[str, tuple[str, str | None]]:
    """What Connect takes the columns for."""
    return {
        field.name(): (field.schema().type().getName(), field.schema().name())
        for field in schema.fields()
        if not field.name().startswith("__")
    }


def without_position(event: Mapping[str, Any]) -> dict[str, Any]:
    """A flat event without what only ours have."""
    return {name: value for name, value in event.items() if name != "__position"}


def test_it_takes_our_envelopes_and_makes_our_flat_events(gateway: Any):
    _, keys, values = published(serialization="connect_json")
    _, _, flats = published(serialization="json", event_form="flat")
    connect = Connect(gateway, has_schemas=True)

    made = [connect.row(key or b"", value) for key, value in zip(keys, values, strict=True)]

    wanted = [without_position(json.loads(flat)) for flat in flats]
    assert [row for row, _ in made] == wanted
    assert [row["__op"] for row, _ in made] == ["c", "u", "d", "d", "c"]
    assert made[2][0]["__unavailable"] == ["note"]
    assert types(made[0][1]) == TYPES


@pytest.mark.parametrize("connect_types", [False, True])
def test_it_takes_our_avro_and_finds_logical_types_by_option(gateway: Any, connect_types: bool):
    schema, _, values = published(connect_types=connect_types)
    _, _, flats = published(serialization="json", event_form="flat")
    connect = Connect(gateway, has_schemas=True)

    made = [connect.avro_row(schema, value) for value in values]

    for (row, _), flat in zip(made, flats, strict=True):
        event = without_position(json.loads(flat))
        event[avro_name("the price")] = event.pop("the price")
        assert row == event
    told = types(made[0][1])
    price = told.pop(avro_name("the price"))
    wanted = TYPES if connect_types else TYPES | UNTOLD
    assert told | {"the price": price} == wanted


def test_decimals_dates_and_bytes_are_javas(gateway: Any):
    """By the converter's own reading of the first row."""
    _, keys, values = published(serialization="connect_json")
    connect = Connect(gateway, has_schemas=True)

    row = connect.extract.apply(connect.record(keys[0] or b"", values[0])).value()

    assert row.get("the price") == Decimal("-0.01")
    assert row.get("day").getTime() == -86_400_000
    assert row.get("raw") == b"\x00\xff"
    assert row.get("at") == 1_795_309_323_456_789


@pytest.mark.parametrize("form", [EventForm.DEBEZIUM, EventForm.FLAT])
def test_json_without_schema_is_what_the_converter_writes_of_it(gateway: Any, form: EventForm):
    """Both of its ways are the same to it: one is the other's payload."""
    _, _, plain = published(serialization="json", event_form=form.value)
    _, keys, whole = published(serialization="connect_json", event_form=form.value)
    connect = Connect(gateway, has_schemas=True)

    for key, value, written in zip(keys, whole, plain, strict=True):
        record = connect.record(key or b"", value)
        raw = connect._plain.fromConnectData(TOPIC, record.valueSchema(), record.value())
        assert json.loads(bytes(raw)) == json.loads(written)


def without_lists(value: bytes) -> bytes:
    """An envelope without our lists in ``source``, of which Debezium cannot make attributes."""
    record = json.loads(value)
    (source,) = (field for field in record["schema"]["fields"] if field["field"] == "source")
    source["fields"] = [f for f in source["fields"] if f["field"] not in LISTS]
    payload = record["payload"]["source"]
    record["payload"]["source"] = {n: v for n, v in payload.items() if n not in LISTS}
    return json.dumps(record).encode()


def test_cloud_events_are_what_debeziums_converter_makes_of_envelopes(gateway: Any):
    """Its attributes are ours; but ids, NULL that is left out, and what only our source has."""
    _, keys, envelopes = published(serialization="connect_json")
    _, _, values = published(serialization="json", event_form="cloudevents")
    connect = Connect(gateway, has_schemas=True)
    converter = gateway.jvm.io.debezium.converters.CloudEventsConverter()
    is_json = {"serializer.type": "json", "data.serializer.type": "json"}
    converter.configure(is_json | {"json.schemas.enable": "false"}, False)

    for key, envelope, value in zip(keys, envelopes, values, strict=True):
        record = connect.record(key or b"", without_lists(envelope))
        made = converter.fromConnectData(TOPIC, record.valueSchema(), record.value())
        theirs = json.loads(bytes(made))
        ours = json.loads(value)
        assert {name: ours["data"].pop(name) for name in LISTS}.keys() == set(LISTS)
        assert ours.pop("tailraceposition")
        assert ours.pop("id") != theirs.pop("id")
        assert ours.pop("iodebeziumsnapshot") == "false"
        of_ours = {"commandid", "operation", "captureinstance", "schemalsn"}
        kept = {name: found for name, found in theirs.items() if found is not None}
        assert ours == {
            n: v for n, v in kept.items() if n.removeprefix("iodebezium") not in of_ours
        }
        read = converter.toConnectData(TOPIC, value).value()
        assert read.get("iodebeziumop") == ours["iodebeziumop"]
