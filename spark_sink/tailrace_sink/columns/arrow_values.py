"""Arrow arrays of decoded values, in the types of the lake."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

import numpy as np
import pyarrow as pa

from tailrace_sink.columns.avro_plan import NotByColumns
from tailrace_sink.columns.cursor import Numbers, Undecodable

_DECIMAL: Final = re.compile(r"^DECIMAL\((\d+),(\d+)\)$")
_LAKE: Final[Mapping[str, pa.DataType]] = {
    "BOOLEAN": pa.bool_(),
    "SMALLINT": pa.int16(),
    "INT": pa.int32(),
    "BIGINT": pa.int64(),
    "FLOAT": pa.float32(),
    "DOUBLE": pa.float64(),
    "STRING": pa.string(),
    "BINARY": pa.binary(),
    "DATE": pa.date32(),
    "TIMESTAMP_NTZ": pa.timestamp("us"),
    "TIMESTAMP": pa.timestamp("us", "UTC"),
    "ARRAY<STRING>": pa.list_(pa.field("element", pa.string())),
}
_AVRO: Final[Mapping[str, pa.DataType]] = {
    "boolean": pa.bool_(),
    "int": pa.int32(),
    "long": pa.int64(),
    "float": pa.float32(),
    "double": pa.float64(),
    "string": pa.string(),
    "bytes": pa.binary(),
    "int date": pa.date32(),
    "long local-timestamp-micros": pa.timestamp("us"),
    "long time-micros": pa.int64(),
    "string uuid": pa.string(),
}
_WIDER: Final = frozenset(
    {
        (pa.int32(), pa.int16()),
        (pa.int32(), pa.int64()),
        (pa.int16(), pa.int32()),
        (pa.int16(), pa.int64()),
        (pa.int16(), pa.float64()),
        (pa.int32(), pa.float64()),
        (pa.float32(), pa.float64()),
        (pa.date32(), pa.timestamp("us")),
    }
)
"""Casts that have no other outcome than Spark's; a number that does not fit is an error."""
_DIGITS: Final[Mapping[pa.DataType, int]] = {pa.int16(): 5, pa.int32(): 10, pa.int64(): 19}
"""Digits before the point that Arrow wants of a decimal to cast an integer to it."""
_DIGITS_MAX: Final = 38
_WORD: Final = 8
"""Bytes of half a decimal."""


def lake_type(name: str) -> pa.DataType:
    """Return the Arrow type of a Spark SQL type.

    Raises:
        NotByColumns: the sink's columns do not have this type.
    """
    decimal = _DECIMAL.match(name)
    if decimal is not None:
        return pa.decimal128(int(decimal[1]), int(decimal[2]))
    if name not in _LAKE:
        raise NotByColumns(f"no Arrow type for {name}")
    return _LAKE[name]


def avro_type(schema: Any) -> pa.DataType:
    """Return the Arrow type in which values of an Avro type are decoded.

    Args:
        schema: of a field of the images, nullable or not.

    Raises:
        NotByColumns: events of this publisher do not have this type.
    """
    if isinstance(schema, list):
        (schema,) = (branch for branch in schema if branch != "null")
    kind, logical = (
        (schema["type"], schema.get("logicalType")) if isinstance(schema, dict) else (schema, None)
    )
    if logical == "decimal" and kind == "bytes":
        return pa.decimal128(schema["precision"], schema["scale"])
    name = kind if logical is None else f"{kind} {logical}"
    if name not in _AVRO:
        raise NotByColumns(f"Avro type {name}")
    return _AVRO[name]


def require_cast(known: pa.DataType, wanted: pa.DataType) -> None:
    """Refuse a cast that may have another outcome than Spark's.

    Raises:
        NotByColumns: the cast is not known to be the same.
    """
    if known == wanted or (known, wanted) in _WIDER:
        return
    if pa.types.is_decimal(wanted):
        digits = _DIGITS.get(known)
        if digits is not None and wanted.scale + digits <= _DIGITS_MAX:
            return
        if pa.types.is_decimal(known) and (
            wanted.scale >= known.scale
            and wanted.precision - wanted.scale >= known.precision - known.scale
        ):
            return
    raise NotByColumns(f"cast of {known} to {wanted}")


def cast(array: pa.Array, wanted: pa.DataType) -> pa.Array:
    """Cast an array to a type that :func:`require_cast` allows.

    Raises:
        Undecodable: a value does not fit.
    """
    if array.type == wanted:
        return array
    try:
        if pa.types.is_decimal(wanted) and not pa.types.is_decimal(array.type):
            # Arrow casts an integer only to a decimal with room for all of its type.
            wide = pa.decimal128(wanted.scale + _DIGITS[array.type], wanted.scale)
            return array.cast(wide).cast(wanted)
        return array.cast(wanted)
    except pa.ArrowInvalid as error:
        raise Undecodable(f"a value of type {array.type} does not fit {wanted}") from error


def texts(
    data: pa.Buffer, first: Numbers, lengths: Numbers, type_: pa.DataType, there: Numbers | None
) -> pa.Array:
    """Create texts or bytes from their places in the records.

    Args:
        data: bytes of all records.
        first: first positions, which grow.
        lengths: 0 where there is no value.
        there: whether there is a value; None: everywhere.

    Raises:
        Undecodable: a text is not UTF-8.
    """
    count = len(first)
    if not count:
        return pa.array([], type_)
    # Every second element is what lies between two values. So Arrow copies whole values.
    offsets = np.empty(2 * count, np.int32)
    offsets[0::2] = first
    offsets[1::2] = first + lengths
    every = pa.Array.from_buffers(type_, 2 * count - 1, [None, pa.py_buffer(offsets), data])
    chosen = pa.array(np.arange(0, 2 * count, 2), mask=None if there is None else ~there)
    taken = every.take(chosen)
    if pa.types.is_string(type_):
        try:
            taken.validate(full=True)
        except pa.ArrowInvalid as error:
            raise Undecodable("a text is not UTF-8") from error
    return taken


def numbers(values: Numbers, type_: pa.DataType, there: Numbers | None) -> pa.Array:
    """Create booleans, numbers, dates or times."""
    mask = None if there is None else ~there
    if pa.types.is_date32(type_):
        return pa.array(values.astype(np.int32), pa.int32(), mask=mask).view(type_)
    if pa.types.is_timestamp(type_):
        return pa.array(values.astype(np.int64), pa.int64(), mask=mask).view(type_)
    return pa.array(values.astype(type_.to_pandas_dtype(), copy=False), type_, mask=mask)


def decimals(
    data: Numbers, first: Numbers, lengths: Numbers, type_: pa.DataType, there: Numbers | None
) -> pa.Array:
    """Create decimals from the places of their big-endian digits.

    Raises:
        Undecodable: a number has no byte, more than 16, or more digits than its type.
    """
    known = lengths if there is None else lengths[there]
    if len(known) and (known.min() < 1 or known.max() > 2 * _WORD):
        raise Undecodable("a decimal has no bytes, or more than 16")
    words = np.zeros((len(first), 2), np.int64)
    high = np.maximum(lengths - _WORD, 0)
    if high.any():
        words[:, 1] = _signed(data, first, high)
        long = high > 0
        words[:, 0] = np.where(
            long,
            _signed(data, first + high, np.minimum(lengths, _WORD)),
            _signed(data, first, np.minimum(lengths, _WORD)),
        )
        words[:, 1] = np.where(long, words[:, 1], words[:, 0] >> 63)
    else:
        words[:, 0] = _signed(data, first, lengths)
        words[:, 1] = words[:, 0] >> 63
    if there is not None:
        words[~there] = 0
    bits = None if there is None else _bits(there)
    found = pa.Array.from_buffers(type_, len(first), [bits, pa.py_buffer(words)])
    try:
        found.validate(full=True)
    except pa.ArrowInvalid as error:
        raise Undecodable(f"a number has more digits than {type_}") from error
    return found


def _signed(data: Numbers, first: Numbers, lengths: Numbers) -> Numbers:
    """Read big-endian numbers of up to 8 bytes; those of no bytes are 0 or -1."""
    top = data.take(first, mode="clip")
    number = -(top >> 7).astype(np.int64)
    width, least = int(lengths.max(initial=0)), int(lengths.min(initial=0))
    for place in range(width):
        byte = data.take(first + place, mode="clip")
        if place < least:
            number = (number << 8) | byte
        else:
            number = np.where(lengths > place, (number << 8) | byte, number)
    return number


def _bits(there: Numbers) -> pa.Buffer:
    return pa.py_buffer(np.packbits(there, bitorder="little"))
