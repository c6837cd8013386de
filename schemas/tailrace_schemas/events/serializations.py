"""The bytes of events and their keys, and how a registered schema shows how they are written."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Any, Final


class Serialization(StrEnum):
    """How keys and values of a data topic are written."""

    AVRO = "avro"
    """Confluent's wire format: the schema's id, then Avro."""
    JSON = "json"
    """Plain JSON, as Connect's JsonConverter writes it with ``schemas.enable=false``."""
    CONNECT_JSON = "connect_json"
    """JSON with Connect's own schema in every record (``schema`` and ``payload``)."""
    JSON_SCHEMA = "json_schema"
    """Confluent's wire format: the id of a JSON Schema, then JSON."""


class JsonDecimals(StrEnum):
    """How JSON has a decimal."""

    BASE64 = "base64"
    """Its unscaled value, big-endian, as JsonConverter writes it."""
    TEXT = "text"
    """Its digits."""


SERIALIZATION_ATTRIBUTE: Final = "serialization"
"""Attribute of a registered schema that says the serialization; one of Avro has none."""


def serialization_of(schema: Mapping[str, Any]) -> Serialization:
    """How the events of a registered schema are written.

    Raises:
        ValueError: a serialization of a later release.
    """
    return Serialization(schema.get(SERIALIZATION_ATTRIBUTE, Serialization.AVRO))


def is_json_schema(schema: Mapping[str, Any]) -> bool:
    """Whether a registered schema is a JSON Schema; else it is one of Avro."""
    return "$schema" in schema
