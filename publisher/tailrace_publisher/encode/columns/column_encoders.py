"""One encoder per column, by its Avro type and its transform.

The Avro type decides, not the SQL Server type. The dispatch goes through
``tailrace_schemas.events.column_types``, so the bytes always fit the registered schema.

A value that does not fit raises one of ``VALUE_ERRORS``; it never becomes NULL or a rounded number.
The caller finds the row and names table, column and position.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from typing import Any, Final

from tailrace_publisher.encode.columns.value_encoders import (
    LOGICAL,
    PLAIN,
    ColumnEncoder,
    decimals,
)
from tailrace_publisher.encode.columns.value_hash import ValueHash
from tailrace_schemas.events.column_types import AvroSchema, avro_type
from tailrace_schemas.events.envelope import SchemaColumn
from tailrace_schemas.events.transforms import ColumnTransform, TransformKind

VALUE_ERRORS: Final = (
    ArithmeticError,
    AttributeError,
    LookupError,
    TypeError,
    ValueError,
    struct.error,
)
"""Every error that the encoders raise for a value of the wrong type or size."""


def column_encoder(column: SchemaColumn, hashes: ValueHash | None = None) -> ColumnEncoder:
    """Return the encoder of a column's values in its Avro type.

    Args:
        hashes: the hash function of hashed columns.

    Raises:
        UnsupportedType: the type has no Avro form.
        ValueError: the column is hashed, and ``hashes`` is missing or has another salt.
    """
    optional = not column.is_required
    encode = _of_schema(avro_type(column.type, lossless=column.lossless), optional)
    if column.transform is not None:
        encode = _transformed(column.transform, encode, hashes)
    return encode if optional else _required(encode)


def _transformed(
    transform: ColumnTransform, encode: ColumnEncoder, hashes: ValueHash | None
) -> ColumnEncoder:
    """Return the encoder of values that the server masked, cut, or returned as text."""
    if transform.kind is TransformKind.MASK:
        return encode
    if transform.kind is TransformKind.TRUNCATE:
        return lambda column: encode([_without_cut_pair(value) for value in column])
    hash_of = hash_of_column(transform, hashes)
    return lambda column: encode([hash_of(value) for value in column])


def hash_of_column(
    transform: ColumnTransform, hashes: ValueHash | None
) -> Callable[[Any], str | None]:
    """Return the function that hashes a column's values.

    Raises:
        ValueError: ``hashes`` is missing or has another salt.
    """
    if hashes is None or hashes.salt_id != transform.detail:
        raise ValueError("a hashed column needs the salt of its version")
    return hashes.of


def _without_cut_pair(text: str | None) -> str | None:
    """Return a cut text without the half of a surrogate pair that may be left at its end."""
    if text and "\ud800" <= text[-1] <= "\udbff":
        return text[:-1]
    return text


def _of_schema(schema: AvroSchema, optional: bool) -> ColumnEncoder:
    if isinstance(schema, dict):
        logical = schema["logicalType"]
        if logical == "decimal":
            return decimals(schema["precision"], schema["scale"], optional)
        return LOGICAL[logical](optional)
    if not isinstance(schema, str):
        raise TypeError(f"a column's type is not a union: {schema}")
    return PLAIN[schema](optional)


def _required(encode: ColumnEncoder) -> ColumnEncoder:
    """Return an encoder for key columns, whose Avro type has no null branch."""

    def refuse_null(column: Sequence[Any]) -> list[bytes]:
        if None in column:
            raise ValueError("NULL in a key column that is declared NOT NULL")
        return encode(column)

    return refuse_null
