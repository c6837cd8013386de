"""Flat events: the row as it is after the change, followed by fields about the change.

Debezium's ExtractNewRecordState flattens an envelope to the same, with
``delete.tombstone.handling.mode=rewrite`` and
``add.fields=op,commit_lsn,source.ts_ms,unavailable,ts_ms``
(https://debezium.io/documentation/reference/stable/transformations/event-flattening.html). In
addition there is the position, without which the ledger could not be checked.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from tailrace_schemas.avsc import load
from tailrace_schemas.events.cloud_events import POSITION_ATTRIBUTE, envelope_of
from tailrace_schemas.events.column_types import UnsupportedType
from tailrace_schemas.events.envelope import TableSchema, envelope_schema, position_of, row_schema
from tailrace_schemas.events.forms import FORM_ATTRIBUTE, POSITION_FIELD, EventForm

FLAT_FIELDS: Final[list[dict[str, Any]]] = load("flat")["fields"]
"""The fields after the columns; they are explained in avsc/flat.avsc."""

_NAMES: Final = frozenset(field["name"] for field in FLAT_FIELDS)


def flat_schema(prefix: str, schema: TableSchema) -> dict[str, Any]:
    """The schema of a data topic's value in the flat form.

    Raises:
        UnsupportedType: a column has a type without an Avro form, or the name of a field that is
            added after the columns.
    """
    row = row_schema(prefix, schema)
    for column, field in zip(schema.columns, row["fields"], strict=True):
        if field["name"] in _NAMES:
            raise UnsupportedType(
                f"column {column.name} has the name of a field that event_form: flat adds; leave"
                " it out (columns.exclude), rename it, or publish with event_form: debezium"
            )
    return {
        **row,
        FORM_ATTRIBUTE: EventForm.FLAT.value,
        "captureInstance": schema.capture_instance,
        "schemaLsn": str(schema.schema_lsn),
        "sqlTable": [schema.table.database, schema.table.schema, schema.table.table],
        "fields": [*row["fields"], *FLAT_FIELDS],
    }


def value_schema(form: EventForm, prefix: str, schema: TableSchema) -> dict[str, Any]:
    """The schema of a data topic's value; of CloudEvents, that of their envelopes.

    Raises:
        UnsupportedType: as of :func:`flat_schema`, or of an envelope's columns.
    """
    if form is EventForm.FLAT:
        return flat_schema(prefix, schema)
    envelope = envelope_schema(prefix, schema)
    return envelope if form is EventForm.DEBEZIUM else {**envelope, FORM_ATTRIBUTE: form.value}


def as_envelope(event: Mapping[str, Any]) -> Mapping[str, Any]:
    """An event of any form in the shape of an envelope, for who shows events.

    The envelope of a flat event lacks what that does not carry: one of the images of an update,
    and most of ``source``. It has the position, the commit time and ``unavailable``.

    Raises:
        ValueError: the position of a flat event is none.
    """
    if POSITION_ATTRIBUTE in event:
        return envelope_of(event)
    if POSITION_FIELD not in event:
        return event
    position = position_of(event)
    row = {name: value for name, value in event.items() if name not in _NAMES}
    is_delete = event["__op"] == "d"
    return {
        "before": row if is_delete else None,
        "after": None if is_delete else row,
        "source": {
            "ts_ms": event["__source_ts_ms"],
            "change_lsn": str(position.seqval),
            "commit_lsn": str(position.commit_lsn),
            "command_id": position.command_id,
            "operation": int(position.operation),
            "unavailable": event["__unavailable"],
        },
        "op": event["__op"],
        "ts_ms": event["__ts_ms"],
        "transaction": None,
    }
