"""INTN and BITN, and the fixed-length forms that only clients send. Values are int."""

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

_FORMATS: Final = {1: "B", 2: "h", 4: "i", 8: "q"}
_FIXED_BYTES: Final = {
    DataType.INT1: 1,
    DataType.INT2: 2,
    DataType.INT4: 4,
    DataType.INT8: 8,
    DataType.BIT: 1,
}


class IntegerFamily:
    """bit, tinyint (unsigned), smallint, int, bigint."""

    tokens = (DataType.INTN, DataType.BITN, *_FIXED_BYTES)

    def encode_info(self, info: TypeInfo) -> bytes:
        """The length, which the fixed forms leave out."""
        return b"" if info.token in _FIXED_BYTES else bytes((info.length,))

    def decode_info(self, token: DataType, reader: Reader) -> TypeInfo:
        """The length, which the fixed forms leave out."""
        length = _FIXED_BYTES.get(token) or reader.u8()
        if length not in _FORMATS or (token is DataType.BITN and length != 1):
            raise RemoteProtocolError(f"{token.name} of {length} bytes")
        return TypeInfo(token, length)

    def encoder(self, info: TypeInfo) -> Encoder:
        """Length byte, then little-endian."""
        fixed = info.token in _FIXED_BYTES
        prefix = b"" if fixed else bytes((info.length,))
        pack = struct.Struct("<" + _FORMATS[info.length]).pack

        def encode(value: Any) -> bytes:
            if value is None and not fixed:
                return b"\0"
            try:
                return prefix + pack(value)
            except struct.error as error:
                raise out_of_range(info, value) from error

        return encode

    def decoder(self, info: TypeInfo) -> Decoder:
        """Length byte (0 is NULL), then little-endian."""
        fixed = info.token in _FIXED_BYTES
        is_bit = info.token in (DataType.BIT, DataType.BITN)
        if not fixed and not is_bit:
            return _nullable_decoder(info)

        def decode(reader: Reader) -> Value:
            length = info.length if fixed else reader.u8()
            if length == 0:
                return None
            if length != info.length:
                raise wrong_length(info, length)
            value = int.from_bytes(reader.take(length), "little", signed=length > 1)
            return int(value != 0) if is_bit else value

        return decode

    def columns(self, info: TypeInfo) -> PackPlan:
        """The length as a constant, then the value."""
        return PackPlan(
            _FORMATS[info.length],
            lambda values: ((values,), None),
            b"\0",
            prefix=b"" if info.token in _FIXED_BYTES else bytes((info.length,)),
        )


def _nullable_decoder(info: TypeInfo) -> Decoder:
    """Of INTN: what parameters mostly are."""
    size = info.length
    unpack = struct.Struct("<" + _FORMATS[size]).unpack_from

    def decode(reader: Reader) -> Value:
        start = reader.position
        data = reader.data
        length = data[start] if start < len(data) else reader.u8()  # which says what is missing
        if length != size:
            reader.position = start + 1
            if length == 0:
                return None
            raise wrong_length(info, length)
        try:
            value: int = unpack(data, start + 1)[0]
        except struct.error:
            reader.take(1 + size)  # says what is missing
            raise
        reader.position = start + 1 + size
        return value

    return decode
