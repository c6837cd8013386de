"""The description of events is whole, and grouping its parts changes no byte."""

from __future__ import annotations

import pytest

from tailrace_publisher.encode.envelopes.event_forms import parts_of_event
from tailrace_publisher.encode.envelopes.event_parts import (
    POSITION,
    Fact,
    Facts,
    grouped,
    parts_of,
    written,
)
from tailrace_publisher.encode.event_kinds import Kind
from tailrace_publisher.encode.update_mask import UpdateMask
from tailrace_schemas.events.column_types import ColumnType
from tailrace_schemas.events.envelope import SchemaColumn, TableSchema
from tailrace_schemas.events.forms import EventForm
from tailrace_schemas.position.change_position import POSITION_BYTES
from tailrace_schemas.position.lsn import Lsn
from tailrace_schemas.topics.topic_names import TableName

SCHEMA = TableSchema(
    TableName("db", "dbo", "t"), "dbo_t", Lsn(1, 0, 1), (SchemaColumn(1, "id", ColumnType("int")),)
)


def test_a_field_without_an_origin_is_refused() -> None:
    known = {"name": "__position", "type": "string"}

    assert parts_of([known], {"__position": POSITION})
    with pytest.raises(KeyError, match="__new"):
        parts_of([known, {"name": "__new", "type": "string"}], {"__position": POSITION})


@pytest.mark.parametrize("form", EventForm)
@pytest.mark.parametrize("kind", Kind)
def test_groups_have_the_bytes_of_their_parts(form: EventForm, kind: Kind) -> None:
    parts = parts_of_event(form, 7, "server", SCHEMA, UpdateMask(SCHEMA))
    position = bytes(range(POSITION_BYTES - 1)) + bytes([kind.operation])
    facts = Facts(kind, b"\x01", ("large",), position, 1_700_000_000_123, 99)

    groups = grouped(parts, (Fact.KIND | Fact.MASK, Fact.PAGE | Fact.COMMIT_MS))

    assert len(groups) < len(parts)
    assert b"".join(written(group, facts) for group in groups) == written(parts, facts)
