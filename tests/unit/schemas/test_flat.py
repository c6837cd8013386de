"""The schema of flat events, and who finds out that it is one."""

from __future__ import annotations

import json
from dataclasses import replace

import fastavro
import pytest

from tailrace_schemas.events.column_types import ColumnType, UnsupportedType
from tailrace_schemas.events.envelope import (
    SchemaColumn,
    TableSchema,
    envelope_schema,
    key_schema,
    table_schema_of,
)
from tailrace_schemas.events.flat import FLAT_FIELDS, flat_schema, value_schema
from tailrace_schemas.events.forms import EventForm, form_of
from tailrace_schemas.topics.topic_names import TableName, TopicNames
from tailrace_sink.errors import SNAPSHOT_HELPS, UnsupportedEventForm
from tailrace_sink.fold.table_batch import TableBatches
from tailrace_sink.plan.topic_ranges import TopicRange
from tailrace_sink.rows.writer_schema import writer_schema
from tests.unit.schemas.test_contract import SCHEMA

NAMES = TopicNames("p")


def test_it_is_avro_and_says_its_form() -> None:
    schema = flat_schema("p", SCHEMA)

    fastavro.parse_schema(schema)
    assert form_of(json.loads(json.dumps(schema))) is EventForm.FLAT
    assert form_of(envelope_schema("p", SCHEMA)) is EventForm.DEBEZIUM
    with pytest.raises(ValueError, match="binary"):
        form_of({"eventForm": "binary"})


def test_its_columns_are_those_of_the_envelopes_images() -> None:
    row = envelope_schema("p", SCHEMA)["fields"][0]["type"][1]
    schema = flat_schema("p", SCHEMA)

    count = len(row["fields"])
    assert schema["fields"][:count] == row["fields"]
    assert schema["fields"][count:] == FLAT_FIELDS
    assert (schema["namespace"], schema["name"]) == (row["namespace"], row["name"])


def test_the_version_is_rebuilt_from_it() -> None:
    rebuilt = table_schema_of(json.loads(json.dumps(flat_schema("p", SCHEMA))))

    assert rebuilt == table_schema_of(envelope_schema("p", SCHEMA))
    assert flat_schema("p", rebuilt) == flat_schema("p", SCHEMA)
    assert key_schema("p", rebuilt) == key_schema("p", SCHEMA)


@pytest.mark.parametrize("name", [field["name"] for field in FLAT_FIELDS])
def test_a_column_with_the_name_of_a_field_is_refused_by_name(name: str) -> None:
    column = SchemaColumn(200, name, ColumnType("int"))
    schema = replace(SCHEMA, columns=(*SCHEMA.columns, column))

    with pytest.raises(UnsupportedType, match=rf"column {name} .*columns\.exclude"):
        value_schema(EventForm.FLAT, "p", schema)
    fastavro.parse_schema(value_schema(EventForm.DEBEZIUM, "p", schema))


def test_the_sink_stops_a_table_of_flat_events_by_the_options_name() -> None:
    table = TableName("shop", "dbo", "orders")
    column = SchemaColumn(1, "id", ColumnType("int"), nullable=False, key_ordinal=1)
    schema = TableSchema(table, "dbo_orders", SCHEMA.schema_lsn, (column,))
    other = replace(schema, table=TableName("shop", "dbo", "items"))
    schemas = {7: flat_schema("p", schema), 8: envelope_schema("p", other)}
    topics = {7: NAMES.data(schema.table), 8: NAMES.data(other.table)}
    ranges = [TopicRange(topics[i], {0: (0, 1)}, 1, frozenset({i})) for i in schemas]
    batches = TableBatches(NAMES, lambda _: True, schemas.__getitem__)

    listed, stopped = batches.of(ranges)

    assert [batch.table for batch in listed] == [other.table]
    (error,) = stopped.values()
    assert isinstance(error, UnsupportedEventForm)
    assert f"topic {topics[7]}: its events have the publisher's event_form: flat" in str(error)
    assert SNAPSHOT_HELPS not in str(error), "a snapshot would be flat, too"
    with pytest.raises(UnsupportedEventForm):
        writer_schema(7, schemas[7], topics[7])
