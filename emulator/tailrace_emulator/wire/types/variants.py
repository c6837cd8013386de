"""SSVARIANT: a value that brings its own type. MS-TDS 2.2.5.5.3.

Its storage value is a str whose characters are the bytes that travel. They are base type, the
length of its properties, the properties, the value without a length of its own.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Any, Final

from tailrace_emulator.wire.errors import RemoteProtocolError
from tailrace_emulator.wire.reader import Reader
from tailrace_emulator.wire.types.base import (
    Arguments,
    DataType,
    Decoder,
    Encoder,
    PackPlan,
    TypeInfo,
    Value,
    out_of_range,
    wrong_length,
)

VARIANT_BYTES: Final = 8009
_LENGTH: Final = struct.Struct("<I")
_HEAD_BYTES: Final = 2

PROPERTY_BYTES: Final = {
    **dict.fromkeys(
        (DataType.BIT, DataType.INT1, DataType.INT2, DataType.INT4, DataType.INT8, DataType.FLT4,
         DataType.FLT8, DataType.MONEY, DataType.MONEY4, DataType.DATETIME, DataType.DATETIM4,
         DataType.GUID, DataType.DATEN), 0,
    ),
    **dict.fromkeys((DataType.TIMEN, DataType.DATETIME2N, DataType.DATETIMEOFFSETN), 1),
    **dict.fromkeys((DataType.BIGVARBINARY, DataType.BIGBINARY), 2),
    **dict.fromkeys((DataType.NUMERICN, DataType.DECIMALN), 2),
    **dict.fromkeys(
        (DataType.BIGVARCHAR, DataType.BIGCHAR, DataType.NVARCHAR, DataType.NCHAR), 7
    ),
}  # fmt: skip
"""What the properties of each base type take."""


class VariantFamily:
    """sql_variant."""

    tokens = (DataType.SSVARIANT,)

    def encode_info(self, info: TypeInfo) -> bytes:
        """The most bytes of a value."""
        return _LENGTH.pack(info.length)

    def decode_info(self, token: DataType, reader: Reader) -> TypeInfo:
        """The most bytes of a value."""
        return TypeInfo(token, reader.u32())

    def encoder(self, info: TypeInfo) -> Encoder:
        """Length (0 is NULL), then the value with its type."""

        def encode(value: Any) -> bytes:
            if value is None:
                return bytes(4)
            raw: bytes = value.encode("latin-1")
            if len(raw) > info.length:
                raise out_of_range(info, value)
            return _LENGTH.pack(len(raw)) + raw

        return encode

    def decoder(self, info: TypeInfo) -> Decoder:
        """Length (0 is NULL), then the value with its type."""

        def decode(reader: Reader) -> Value:
            length = reader.u32()
            if length == 0:
                return None
            if not _HEAD_BYTES <= length <= max(info.length, VARIANT_BYTES):
                raise wrong_length(info, length)
            raw = reader.take(length)
            properties = PROPERTY_BYTES.get(raw[0])  # type: ignore[call-overload]  # an IntEnum's
            if properties is None or raw[1] != properties or length < _HEAD_BYTES + properties:
                raise RemoteProtocolError(f"sql_variant of type 0x{raw[0]:02x}")
            return raw.decode("latin-1")

        return decode

    def columns(self, info: TypeInfo) -> PackPlan:
        """Length inside the struct, the value after it."""

        def lengths_and_bodies(values: Sequence[Any]) -> tuple[Arguments, Sequence[bytes] | None]:
            bodies = [value.encode("latin-1") if value is not None else None for value in values]
            if None in bodies:
                raise TypeError("NULL in a column that was said to hold none")
            lengths = list(map(len, bodies))  # type: ignore[arg-type]  # no None is left
            if max(lengths) > info.length:
                raise out_of_range(info, max(values, key=len))
            return (lengths,), bodies  # type: ignore[return-value]  # no None is left

        return PackPlan("I", lengths_and_bodies, bytes(4), has_body=True)
