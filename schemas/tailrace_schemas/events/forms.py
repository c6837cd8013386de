"""The form of a data topic's events, and how a registered schema shows it."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Any, Final, NamedTuple, Self

from tailrace_schemas.events.serializations import Serialization, serialization_of


class EventForm(StrEnum):
    """What the value of an event is."""

    DEBEZIUM = "debezium"
    """The envelope: both row images, and where the change comes from."""
    FLAT = "flat"
    """One row image, followed by a few fields: ``tailrace_schemas.events.flat``."""
    CLOUDEVENTS = "cloudevents"
    """A CloudEvent with both row images: ``tailrace_schemas.events.cloud_events``."""


FORM_ATTRIBUTE: Final = "eventForm"
"""Attribute of a registered schema that says the form; an envelope has none."""

POSITION_FIELD: Final = "__position"
"""Field of a flat event with its whole position, in hexadecimal digits."""


def form_of(schema: Mapping[str, Any]) -> EventForm:
    """The form of the events of a registered schema.

    Raises:
        ValueError: a form of a later release.
    """
    return EventForm(schema.get(FORM_ATTRIBUTE, EventForm.DEBEZIUM))


def row_fields(schema: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The columns' fields in the Avro schema of events of any form.

    Raises:
        KeyError, IndexError, TypeError: not one of ours.
        ValueError: a form of a later release.
    """
    if form_of(schema) is EventForm.FLAT:
        return [field for field in schema["fields"] if "sqlName" in field]
    fields: list[dict[str, Any]] = schema["fields"][0]["type"][1]["fields"]
    return fields


class EventShape(NamedTuple):
    """What the events of a topic are, and how they are written."""

    form: EventForm = EventForm.DEBEZIUM
    serialization: Serialization = Serialization.AVRO

    @classmethod
    def of(cls, schema: Mapping[str, Any]) -> Self:
        """The shape of the events of a registered schema.

        Raises:
            ValueError: one of a later release.
        """
        return cls(form_of(schema), serialization_of(schema))

    def differences(self, other: EventShape) -> str:
        """The options by which it is another one than ``other``, with its values."""
        options = []
        if self.form is not other.form:
            options.append(f"event_form: {self.form}")
        if self.serialization is not other.serialization:
            options.append(f"serialization: {self.serialization}")
        return ", ".join(options)
