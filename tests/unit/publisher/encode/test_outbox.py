"""Messages of an outbox, created from encoded events."""

from __future__ import annotations

from typing import Any

import pytest

from tailrace_publisher.encode.envelopes.envelope import EnvelopeEncoder
from tailrace_publisher.encode.envelopes.version_schemas import VersionSchemas
from tailrace_publisher.encode.event_settings import Treatment
from tailrace_publisher.encode.outbox import Outbox, OutboxMessage
from tailrace_publisher.errors import ConfigError, OutboxRefused
from tailrace_publisher.options.publisher_config import PublisherConfig
from tailrace_schemas.events.column_types import MAX, ColumnType
from tailrace_schemas.events.envelope import SchemaColumn, TableSchema
from tailrace_schemas.events.forms import EventForm
from tailrace_schemas.position.lsn import Lsn
from tailrace_schemas.topics.topic_names import TableName
from tests.least_options import LEAST

TABLE = TableName("Shop", "dbo", "outbox")
COMMIT, SEQVAL = Lsn(1, 1, 1).to_bytes(), Lsn(1, 1, 0).to_bytes()


def schema(payload: str = "nvarchar") -> TableSchema:
    columns = (
        SchemaColumn(1, "Id", ColumnType("int"), nullable=False, key_ordinal=1),
        SchemaColumn(2, "aggregatetype", ColumnType("varchar", length=400)),
        SchemaColumn(3, "aggregateid", ColumnType("varchar", length=50)),
        SchemaColumn(4, "type", ColumnType("bit")),
        SchemaColumn(5, "payload", ColumnType(payload, length=MAX)),
    )
    return TableSchema(TABLE, "dbo_outbox", Lsn(1, 1, 1), columns)


def outbox(of_table: TableSchema, options: dict[str, Any], **further: Any) -> Outbox:
    config = PublisherConfig.load({**LEAST, "outbox": {".*": options}, **further})
    return Outbox.of(config, of_table, VersionSchemas.of(config, of_table).avro_value)


def messages(
    *rows: tuple[int, tuple[Any, ...]],
    payload: str = "nvarchar",
    form: EventForm = EventForm.DEBEZIUM,
    **options: Any,
) -> list[OutboxMessage]:
    """Messages of change rows: operation and values."""
    of_table = schema(payload)
    topic, treatment = "shop.Shop.dbo.outbox", Treatment(form=form)
    encoder = EnvelopeEncoder("shop", of_table, topic, 1, 2, treatment)
    changes = [
        (COMMIT, number - (operation == 4), SEQVAL, operation, b"\x1f", *values)
        for number, (operation, values) in enumerate(rows)
    ]
    encoded = encoder.encode(changes, {COMMIT: 0})
    further = {"event_form": form.value, "serialization": "json"}
    return list(outbox(of_table, options, **further).messages(encoded))


@pytest.mark.parametrize("form", EventForm)
def test_values_are_bytes_as_they_are_and_text_in_utf_8(form: EventForm):
    row = (7, "order", None, True, b"\x00\xff")
    (message,) = messages((2, row), payload="varbinary", form=form)

    assert message.topic.endswith(".outbox.order")
    assert (message.key, message.value) == (None, b"\x00\xff")
    assert message.headers[1:] == [("id", b"7"), ("eventType", b"true")]
    assert message.headers[0][0] == "tailrace.position"
    assert len(message.headers[0][1]) == 50


def test_null_is_a_null_value_and_no_header():
    (message,) = messages((2, (7, "order", "1", None, None)))

    assert (message.key, message.value) == (b"1", None)
    assert [name for name, _ in message.headers] == ["tailrace.position", "id"]


def test_only_inserts_are_messages():
    row = (7, "order", "1", True, "x")
    rows = ((2, row), (3, row), (4, (*row[:4], "y")), (1, row))

    assert [message.value for message in messages(*rows)] == [b"x"]
    with pytest.raises(OutboxRefused, match=r"position .*: the row was updated"):
        messages(*rows, on_update="stop-table")


@pytest.mark.parametrize(
    ("route", "options", "expected"),
    [
        (None, {}, "column aggregatetype, position .*: its value is NULL or empty"),
        ("", {}, "its value is NULL or empty"),
        ("x" * 300, {}, "more than 249 characters"),
        ("progress", {"topic": "{prefix}.{route}"}, "is a table's or the publisher's own"),
    ],
)
def test_a_route_that_names_no_topic_of_its_own_is_refused(
    route: str | None, options: dict[str, Any], expected: str
):
    with pytest.raises(OutboxRefused, match=expected):
        messages((2, (7, route, "1", True, "x")), **options)


def test_an_outbox_needs_its_columns_and_a_payload_of_text_or_bytes():
    with pytest.raises(OutboxRefused, match=r"column nope: the column is not published\. Fix"):
        outbox(schema(), {"key": "nope"})
    with pytest.raises(OutboxRefused, match="its type int is neither text nor binary"):
        outbox(schema(), {"payload": "ID"})


@pytest.mark.parametrize(
    "topic",
    ["{route}", "{prefix}{route}", "{prefix}.x", "{prefix}.{route}.{route}", "{prefix}.ä{route}"],
)
def test_a_topic_without_prefix_and_route_is_refused(topic: str):
    with pytest.raises(ConfigError, match=r"outbox.*write \{prefix\}"):
        PublisherConfig.load({**LEAST, "outbox": {".*": {"topic": topic}}})
