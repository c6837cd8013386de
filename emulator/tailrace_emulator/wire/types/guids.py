"""GUIDTYPE: uniqueidentifier. Values are 16 bytes permuted into SQL Server's sort order.

SQL Server compares bytes 10-15 of the little-endian form first, then 8-9, 6-7, 4-5 and 0-3.
"""

from __future__ import annotations

from collections.abc import Sequence
from operator import itemgetter
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

_GUID_BYTES: Final = 16
_TO_WIRE: Final = itemgetter(12, 13, 14, 15, 10, 11, 8, 9, 6, 7, 0, 1, 2, 3, 4, 5)
_FROM_WIRE: Final = itemgetter(10, 11, 12, 13, 14, 15, 8, 9, 6, 7, 4, 5, 0, 1, 2, 3)


class GuidFamily:
    """uniqueidentifier: 16 bytes, its first three groups little-endian."""

    tokens = (DataType.GUID,)

    def encode_info(self, info: TypeInfo) -> bytes:
        """The length, always 16."""
        return bytes((info.length,))

    def decode_info(self, token: DataType, reader: Reader) -> TypeInfo:
        """The length, always 16."""
        length = reader.u8()
        if length != _GUID_BYTES:
            raise RemoteProtocolError(f"uniqueidentifier of {length} bytes")
        return TypeInfo(token, length)

    def encoder(self, info: TypeInfo) -> Encoder:
        """Length byte, then the bytes in wire order."""

        def encode(value: Any) -> bytes:
            if value is None:
                return b"\0"
            if len(value) != _GUID_BYTES:
                raise out_of_range(info, value)
            return b"\x10" + bytes(_TO_WIRE(value))

        return encode

    def decoder(self, info: TypeInfo) -> Decoder:
        """Length byte (0 is NULL), then the bytes in wire order."""

        def decode(reader: Reader) -> Value:
            length = reader.u8()
            if length == 0:
                return None
            if length != info.length:
                raise wrong_length(info, length)
            return bytes(_FROM_WIRE(reader.take(length)))

        return decode

    def columns(self, info: TypeInfo) -> PackPlan:
        """The reordered bytes as one struct argument."""

        def reordered(values: Sequence[Any]) -> tuple[Arguments, Sequence[bytes] | None]:
            if set(map(len, values)) != {_GUID_BYTES}:
                raise out_of_range(info, max(values, key=len))
            return (map(bytes, map(_TO_WIRE, values)),), None

        return PackPlan(f"{info.length}s", reordered, b"\0", prefix=b"\x10")
