"""CloudEvents: attributes that every broker of events knows, around the row images.

Structured mode, in JSON, with the names that Debezium's CloudEventsConverter gives its extension
attributes (https://debezium.io/documentation/reference/stable/integrations/cloudevents.html,
https://github.com/cloudevents/spec/blob/v1.0.2/cloudevents/formats/json-format.md). Beyond them
``tailraceposition`` has the whole position, like ``__position`` of flat events. ``data`` also has
the names of changed and of unavailable columns, because an attribute cannot be a list.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

SPEC_VERSION: Final = "1.0"
EVENT_TYPE: Final = "io.debezium.connector.sqlserver.DataChangeEvent"
CONTENT_TYPE: Final = "application/cloudevents+json; charset=UTF-8"
"""Header of the records, by which subscribers know that they are CloudEvents."""

POSITION_ATTRIBUTE: Final = "tailraceposition"

_DATA: Final = ("before", "after")
_LISTS: Final = ("changed", "unavailable")
_REQUIRED: Final = (
    "id",
    "source",
    "specversion",
    "type",
    "time",
    "datacontenttype",
    "iodebeziumop",
    POSITION_ATTRIBUTE,
    "data",
)


def cloud_event_schema(envelope: Mapping[str, Any]) -> dict[str, Any]:
    """The JSON Schema of CloudEvents.

    Args:
        envelope: that of the envelopes they are built from.
    """
    inner = envelope["properties"]
    lists = inner["source"]["properties"]
    data = {name: inner[name] for name in _DATA} | {name: lists[name] for name in _LISTS}
    text: dict[str, Any] = {"type": "string"}
    properties = {name: text for name in _REQUIRED if name != "data"}
    properties["data"] = {
        "type": "object",
        "properties": {
            name: {**found, "connect.index": index}
            for index, (name, found) in enumerate(data.items())
        },
        "required": list(data),
        "additionalProperties": False,
    }
    return {
        **{name: value for name, value in envelope.items() if name not in {"properties", "title"}},
        "title": "CloudEvent",
        "properties": properties,
        "required": list(_REQUIRED),
        "additionalProperties": text,  # extension attributes
    }


def envelope_of(event: Mapping[str, Any]) -> dict[str, Any]:
    """A CloudEvent in the shape of an envelope, without what only its attributes' texts have."""
    data = event["data"]
    digits = event[POSITION_ATTRIBUTE]
    return {
        "before": data["before"],
        "after": data["after"],
        "source": {
            "ts_ms": int(event["iodebeziumtsms"]),
            "change_lsn": event["iodebeziumchangelsn"],
            "commit_lsn": event["iodebeziumcommitlsn"],
            "command_id": int(digits[20:28], 16),
            "operation": int(digits[-2:], 16),
            "changed": data["changed"],
            "unavailable": data["unavailable"],
        },
        "op": event["iodebeziumop"],
        "ts_ms": None,
        "transaction": None,
    }
