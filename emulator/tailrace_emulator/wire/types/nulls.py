"""NULLTYPE: a parameter without a type, always NULL. go-mssqldb sends it; results never use it."""

from __future__ import annotations

from typing import Any

from tailrace_emulator.wire.reader import Reader
from tailrace_emulator.wire.types.base import (
    DataType,
    Decoder,
    Encoder,
    PackPlan,
    TypeInfo,
    out_of_range,
    whole_values,
)


class NullFamily:
    """No length, no value: the token says it all."""

    tokens = (DataType.NULL,)

    def encode_info(self, info: TypeInfo) -> bytes:  # noqa: ARG002 -- as every family
        """Nothing."""
        return b""

    def decode_info(self, token: DataType, reader: Reader) -> TypeInfo:  # noqa: ARG002 -- as every family
        """Nothing."""
        return TypeInfo(token)

    def encoder(self, info: TypeInfo) -> Encoder:
        """No bytes for NULL; there is no other value."""

        def encode(value: Any) -> bytes:
            if value is not None:
                raise out_of_range(info, value)
            return b""

        return encode

    def decoder(self, info: TypeInfo) -> Decoder:  # noqa: ARG002 -- as every family
        """NULL, without taking a byte."""
        return lambda _: None

    def columns(self, info: TypeInfo) -> PackPlan:
        """Refuses values, as every column without NULLs refuses NULL."""
        return PackPlan("0s", whole_values(self.encoder(info)), b"")
