"""FLTN: float and real. Values are float."""

from __future__ import annotations

import struct
from typing import Any, Final

from tailrace_emulator.wire.errors import RemoteProtocolError
from tailrace_emulator.wire.reader import Reader
from tailrace_emulator.wire.types.base import (
    DataType,
    Decoder,
    Encoder,
    PackPlan,
    TypeInfo,
    Value,
    out_of_range,
    wrong_length,
)

_FORMATS: Final = {4: "f", 8: "d"}
_FIXED_BYTES: Final = {DataType.FLT4: 4, DataType.FLT8: 8}


class FloatFamily:
    """real (4 bytes) and float (8 bytes), IEEE 754."""

    tokens = (DataType.FLTN, *_FIXED_BYTES)

    def encode_info(self, info: TypeInfo) -> bytes:
        """The length, which the fixed forms leave out."""
        return b"" if info.token in _FIXED_BYTES else bytes((info.length,))

    def decode_info(self, token: DataType, reader: Reader) -> TypeInfo:
        """The length, which the fixed forms leave out."""
        length = _FIXED_BYTES.get(token) or reader.u8()
        if length not in _FORMATS:
            raise RemoteProtocolError(f"{token.name} of {length} bytes")
        return TypeInfo(token, length)

    def encoder(self, info: TypeInfo) -> Encoder:
        """Length byte, then the number."""
        fixed = info.token in _FIXED_BYTES
        prefix = b"" if fixed else bytes((info.length,))
        pack = struct.Struct("<" + _FORMATS[info.length]).pack

        def encode(value: Any) -> bytes:
            if value is None and not fixed:
                return b"\0"
            try:
                return prefix + pack(value)
            except (struct.error, OverflowError) as error:
                raise out_of_range(info, value) from error

        return encode

    def decoder(self, info: TypeInfo) -> Decoder:
        """Length byte (0 is NULL), then the number."""
        fixed = info.token in _FIXED_BYTES
        unpack = struct.Struct("<" + _FORMATS[info.length]).unpack

        def decode(reader: Reader) -> Value:
            length = info.length if fixed else reader.u8()
            if length == 0:
                return None
            if length != info.length:
                raise wrong_length(info, length)
            value: float = unpack(reader.take(length))[0]
            return value

        return decode

    def columns(self, info: TypeInfo) -> PackPlan:
        """The length as a constant, then the number."""
        return PackPlan(
            _FORMATS[info.length],
            lambda values: ((values,), None),
            b"\0",
            prefix=b"" if info.token in _FIXED_BYTES else bytes((info.length,)),
            equal_is_same=False,
        )
