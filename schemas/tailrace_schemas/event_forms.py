"""In what form a data topic has its events, and how to tell it from a registered schema."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Any, Final


class EventForm(StrEnum):
    """What the value of an event is."""

    DEBEZIUM = "debezium"
    """The envelope: both row images, and where the change comes from."""
    FLAT = "flat"
    """One row image with a few fields behind it: ``tailrace_schemas.flat``."""


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
