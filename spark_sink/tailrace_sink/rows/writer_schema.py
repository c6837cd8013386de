"""The registered schemas of a table's events. Pure."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from tailrace_schemas.events.envelope import TableSchema, table_schema_of
from tailrace_schemas.events.forms import EventShape
from tailrace_schemas.events.framing import frame_header
from tailrace_schemas.topics.escaped_names import avro_name
from tailrace_sink.errors import ForeignRecord, UnsupportedEventForm
from tailrace_sink.tables.lake_table import LakeTable

_READ: Final = EventShape()


@dataclass(frozen=True, slots=True)
class WriterSchema:
    """A registered envelope schema.

    Attributes:
        avro: the schema as JSON text, for ``from_avro``.
        version: the table's schema version that the schema describes.
    """

    schema_id: int
    avro: str
    version: TableSchema

    @property
    def header(self) -> str:
        """Frame header of its messages, as a SQL literal."""
        return f"X'{frame_header(self.schema_id).hex()}'"


def writer_schema(schema_id: int, schema: dict[str, Any], topic: str) -> WriterSchema:
    """Parse a registered envelope schema.

    Raises:
        ForeignRecord: it is no envelope of Tailrace's publisher.
        UnsupportedEventForm: the publisher's events have another form.
    """
    try:
        check_form(schema, topic)
        avro = json.dumps(json.loads(json.dumps(schema), object_hook=_times_as_long))
        return WriterSchema(schema_id, avro, table_schema_of(schema))
    except ValueError as error:
        raise ForeignRecord(f"topic {topic}, schema id {schema_id}: {error}") from error


def _times_as_long(part: dict[str, Any]) -> dict[str, Any]:
    """Drop ``time-micros``: Spark 4.2 makes a TIME of it, and seconds of that for BIGINT."""
    if part.get("logicalType") != "time-micros":
        return part
    return {name: value for name, value in part.items() if name != "logicalType"}


def check_form(schema: Mapping[str, Any], topic: str) -> None:
    """Refuse the registered schema of events in another form.

    Raises:
        UnsupportedEventForm: the events have another form, or are not Avro.
        ValueError: their form is unknown.
    """
    found = EventShape.of(schema).differences(_READ)
    if found:
        raise UnsupportedEventForm(topic, found)


def fields_of(table: LakeTable, version: TableSchema) -> dict[int, str]:
    """Map the id of each lake column to the field of a version's images that it holds."""
    fields = {}
    for column in version.columns:
        holder = table.holder_of(column)
        if holder is not None:
            fields[holder.column_id] = avro_name(column.name)
    return fields
