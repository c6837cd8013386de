"""Registered schemas of events that are no Avro, and of Avro with Connect's types."""

from __future__ import annotations

import json
from typing import Any

import fastavro
import pytest

from tailrace_schemas.events.column_types import ColumnType
from tailrace_schemas.events.connect_types import with_connect_types
from tailrace_schemas.events.envelope import SchemaColumn, TableSchema, key_schema, table_schema_of
from tailrace_schemas.events.flat import value_schema
from tailrace_schemas.events.forms import EventForm, EventShape
from tailrace_schemas.events.json_schema import json_schema
from tailrace_schemas.events.serializations import JsonDecimals, Serialization
from tailrace_sink.errors import SNAPSHOT_HELPS, UnsupportedEventForm
from tailrace_sink.rows.writer_schema import writer_schema
from tests.unit.schemas.test_contract import SCHEMA, TABLE

JSONS = [Serialization.JSON, Serialization.CONNECT_JSON, Serialization.JSON_SCHEMA]


@pytest.mark.parametrize("form", list(EventForm))
@pytest.mark.parametrize("serialization", JSONS)
@pytest.mark.parametrize("decimals", list(JsonDecimals))
def test_the_version_is_rebuilt_from_a_json_schema(
    form: EventForm, serialization: Serialization, decimals: JsonDecimals
) -> None:
    avro = value_schema(form, "p", SCHEMA)
    told = json.loads(json.dumps(json_schema(avro, serialization, decimals)))

    rebuilt = table_schema_of(told)

    assert rebuilt == table_schema_of(avro)
    assert value_schema(form, "p", rebuilt) == avro
    assert key_schema("p", rebuilt) == key_schema("p", SCHEMA)
    assert EventShape.of(told) == EventShape(form, serialization)
    with pytest.raises(
        UnsupportedEventForm, match=f"serialization: {serialization}, and"
    ) as caught:
        writer_schema(7, told, "p.t")
    assert SNAPSHOT_HELPS not in str(caught.value), "a snapshot would be the same"


def test_a_columns_name_does_not_make_it_another_form() -> None:
    names = ("data", "before", "source", "properties")
    columns = tuple(SchemaColumn(n, name, ColumnType("int")) for n, name in enumerate(names, 1))
    schema = TableSchema(TABLE, "dbo_t", SCHEMA.schema_lsn, columns)
    for form in EventForm:
        avro = value_schema(form, "p", schema)
        told = json_schema(avro, Serialization.JSON, JsonDecimals.BASE64)
        assert table_schema_of(told) == schema


def test_a_later_serialization_is_named() -> None:
    with pytest.raises(ValueError, match="protobuf"):
        EventShape.of({"serialization": "protobuf"})


@pytest.mark.parametrize("form", list(EventForm))
def test_connects_types_are_told_and_nothing_else_changes(form: EventForm) -> None:
    avro = value_schema(form, "p", SCHEMA)

    told = with_connect_types(json.loads(json.dumps(avro)))

    fastavro.parse_schema(told)
    assert table_schema_of(told) == table_schema_of(avro)
    assert _without_connect(told) == _without_connect(avro)
    row = told if form is EventForm.FLAT else told["fields"][0]["type"][1]
    names: dict[str, set[Any]] = {}
    for field in row["fields"]:
        base = field["type"][1] if isinstance(field["type"], list) else field["type"]
        said = base if isinstance(base, dict) else {}
        name = said.get("connect.name", said.get("connect.type"))
        names.setdefault(field.get("sqlType", "").partition("(")[0], set()).add(name)
    assert names["datetime"] == names["smalldatetime"] == {"io.debezium.time.MicroTimestamp"}
    assert names["datetime2"] == {"io.debezium.time.MicroTimestamp", None}, "one is lossless text"
    assert names["time"] == {"io.debezium.time.MicroTime"}
    assert names["datetimeoffset"] == {"io.debezium.time.ZonedTimestamp"}
    assert names["xml"] == {"io.debezium.data.Xml"}
    assert names["tinyint"] == names["smallint"] == {"int16"}
    assert names["decimal"] == names["date"] == names["int"] == {None}


def _without_connect(schema: Any) -> Any:
    """A schema by what Avro takes of it."""
    if isinstance(schema, dict):
        kept = {k: v for k, v in schema.items() if not k.startswith("connect.")}
        if kept.keys() == {"type"}:
            return _without_connect(kept["type"])
        return {name: _without_connect(value) for name, value in kept.items()}
    return [_without_connect(item) for item in schema] if isinstance(schema, list) else schema
