"""BIGVARBINARY, BIGBINARY and the legacy IMAGE that clients may send. Values are bytes."""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from typing import Any, Final

from tailrace_emulator.wire.reader import Reader
from tailrace_emulator.wire.types import plp
from tailrace_emulator.wire.types.base import (
    PLP,
    Arguments,
    DataType,
    Decoder,
    Encoder,
    PackPlan,
    TypeInfo,
    out_of_range,
    wrong_length,
)

LENGTH_NULL: Final = 0xFFFF
LONG_NULL: Final = 0xFFFFFFFF
_LENGTH: Final = struct.Struct("<H")


class BinaryFamily:
    """binary, varbinary, varbinary(max), timestamp (rowversion) as binary(8)."""

    tokens = (
        DataType.BIGVARBINARY,
        DataType.BIGBINARY,
        DataType.VARBINARY_LEGACY,
        DataType.BINARY_LEGACY,
        DataType.IMAGE,
    )

    def encode_info(self, info: TypeInfo) -> bytes:
        """The most bytes of a value."""
        return struct.pack(_length_format(info.token), info.length)

    def decode_info(self, token: DataType, reader: Reader) -> TypeInfo:
        """The most bytes of a value."""
        if token is DataType.IMAGE:
            return TypeInfo(token, reader.u32())
        if token in (DataType.VARBINARY_LEGACY, DataType.BINARY_LEGACY):
            return TypeInfo(token, reader.u8())
        return TypeInfo(token, reader.u16())

    def encoder(self, info: TypeInfo) -> Encoder:
        """Length, bytes; binary(n) is filled with zeros."""
        if info.token is DataType.BIGVARBINARY and info.length == PLP:
            return lambda value: plp.NULL if value is None else plp.encode(value)
        head = struct.Struct(_length_format(info.token)).pack
        null = head(_null_length(info.token))
        pads = info.token in (DataType.BIGBINARY, DataType.BINARY_LEGACY)

        def encode(value: Any) -> bytes:
            if value is None:
                return null
            if len(value) > info.length:
                raise out_of_range(info, value)
            raw: bytes = value.ljust(info.length, b"\0") if pads else value
            return head(len(raw)) + raw

        return encode

    def decoder(self, info: TypeInfo) -> Decoder:
        """Length, bytes."""
        if info.token is DataType.BIGVARBINARY and info.length == PLP:
            return plp.decode
        return counted_decoder(info)

    def columns(self, info: TypeInfo) -> PackPlan:
        """binary(n) inside the struct, the others after it."""
        if info.length == PLP:
            return PackPlan(plp.FORMAT, plp.columns, plp.NULL, has_body=True)
        null = _LENGTH.pack(LENGTH_NULL)

        def checked_lengths(values: Sequence[Any]) -> list[int]:
            lengths = list(map(len, values))
            if max(lengths) > info.length:
                raise out_of_range(info, max(values, key=len))
            return lengths

        def inside(values: Sequence[Any]) -> tuple[Arguments, Sequence[bytes] | None]:
            checked_lengths(values)
            return (values,), None

        if info.token is DataType.BIGBINARY:
            return PackPlan(f"{info.length}s", inside, null, prefix=_LENGTH.pack(info.length))
        return PackPlan(
            "H", lambda values: ((checked_lengths(values),), values), null, has_body=True
        )


def _length_format(token: DataType) -> str:
    if token in (DataType.IMAGE, DataType.TEXT, DataType.NTEXT):
        return "<I"
    if token in (
        DataType.VARBINARY_LEGACY,
        DataType.BINARY_LEGACY,
        DataType.VARCHAR_LEGACY,
        DataType.CHAR_LEGACY,
    ):
        return "<B"
    return "<H"


def _null_length(token: DataType) -> int:
    return {"<I": LONG_NULL, "<B": 0, "<H": LENGTH_NULL}[_length_format(token)]


def counted_decoder(info: TypeInfo) -> Callable[[Reader], bytes | None]:
    """Takes values whose length prefix depends on their type; also of the character types."""
    layout = _length_format(info.token)
    take_length = {"<I": Reader.u32, "<B": Reader.u8, "<H": Reader.u16}[layout]
    null = _null_length(info.token)
    # Clients declare text, ntext and image with any length; the value's own is what counts.
    longest = LONG_NULL if layout == "<I" else info.length

    def take(reader: Reader) -> bytes | None:
        length = take_length(reader)
        if length == null:
            return None
        if length > longest:
            raise wrong_length(info, length)
        return reader.take(length)

    return take
