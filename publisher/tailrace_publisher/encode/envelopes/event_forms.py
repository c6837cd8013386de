"""The description of events in each form: where the value of every field comes from.

The fields, their order and their types come from the schemas (``ENVELOPE_FIELDS``,
``FLAT_FIELDS``); the row images precede them. The writers of rows and of blocks both compile these
tables, so a new field is one line here. ``json_values`` converts the Avro to JSON and CloudEvents.
"""

from __future__ import annotations

from typing import Final

from tailrace_publisher.encode.columns.varint import NULL, PRESENT
from tailrace_publisher.encode.envelopes.event_parts import (
    CHANGE_LSN,
    COMMAND_ID,
    COMMIT_LSN,
    COMMIT_MS,
    POSITION,
    PROCESSED_MS,
    SNAPSHOT,
    UNAVAILABLE,
    Fact,
    Facts,
    Origin,
    Origins,
    Part,
    bytes_part,
    constant,
    image_part,
    of_kind,
    parts_of,
)
from tailrace_publisher.encode.event_kinds import (
    DELETES,
    HAS_AFTER,
    HAS_BEFORE,
    OP,
    READS,
    Kind,
)
from tailrace_publisher.encode.update_mask import UpdateMask
from tailrace_schemas.events.envelope import CONNECTOR, ENVELOPE_FIELDS, VERSION, TableSchema
from tailrace_schemas.events.flat import FLAT_FIELDS
from tailrace_schemas.events.forms import EventForm
from tailrace_schemas.events.framing import frame_header

_UPDATES: Final = frozenset({Kind.UPDATE, Kind.KEY_DELETE, Kind.KEY_INSERT})


def parts_of_event(
    form: EventForm, schema_id: int, server_name: str, schema: TableSchema, mask: UpdateMask
) -> list[Part]:
    """Describe the framed events of a schema version."""
    frame = bytes_part(frame_header(schema_id))
    if form is EventForm.FLAT:
        return [frame, image_part(Fact.ROW), *parts_of(FLAT_FIELDS, _FLAT)]
    return [
        frame,
        Part(Fact.KIND, lambda facts: PRESENT if facts.kind in HAS_BEFORE else NULL),
        image_part(Fact.BEFORE),
        Part(Fact.KIND, lambda facts: PRESENT if facts.kind in HAS_AFTER else NULL),
        image_part(Fact.AFTER),
        *parts_of(ENVELOPE_FIELDS, _envelope(server_name, schema, mask)),
    ]


def _envelope(server_name: str, schema: TableSchema, mask: UpdateMask) -> Origins:
    return {
        "source": {
            "version": constant(VERSION),
            "connector": constant(CONNECTOR),
            "name": constant(server_name),
            "ts_ms": COMMIT_MS,
            "snapshot": SNAPSHOT,
            "db": constant(schema.table.database),
            "schema": constant(schema.table.schema),
            "table": constant(schema.table.table),
            "change_lsn": CHANGE_LSN,
            "commit_lsn": COMMIT_LSN,
            "event_serial_no": of_kind(_serial_no),
            "command_id": COMMAND_ID,
            "operation": of_kind(lambda kind: kind.operation),
            "capture_instance": constant(schema.capture_instance),
            "schema_lsn": constant(str(schema.schema_lsn)),
            "changed": Origin(Fact.KIND | Fact.MASK, lambda facts: _changed(facts, mask)),
            "unavailable": UNAVAILABLE,
        },
        "op": of_kind(OP.__getitem__),
        "ts_ms": PROCESSED_MS,
        "transaction": constant(None),  # ``transaction_numbers`` fills it in after the merge
    }


_FLAT: Final[Origins] = {
    "__op": of_kind(OP.__getitem__),
    "__deleted": of_kind(lambda kind: "true" if kind in DELETES else "false"),
    "__commit_lsn": COMMIT_LSN,
    "__source_ts_ms": COMMIT_MS,
    "__position": POSITION,
    "__unavailable": UNAVAILABLE,
    "__ts_ms": PROCESSED_MS,
}


def _serial_no(kind: Kind) -> int | None:
    # Debezium counts the events of one change LSN. The count that needs no state: a delete is the
    # first, an event with an after image the second, so a key change keeps its order.
    return None if kind in READS else 1 + (kind in HAS_AFTER)


def _changed(facts: Facts, mask: UpdateMask) -> tuple[str, ...]:
    """Names of the changed columns: inserts and deletes change all, so theirs say nothing."""
    return mask.changed(facts.mask) if facts.kind in _UPDATES else ()
