"""SQL Server's types on the wire, one family a file."""

from tailrace_emulator.wire.types.base import (
    DEFAULT_COLLATION_BYTES,
    PLP,
    DataType,
    TypeInfo,
    Value,
)
from tailrace_emulator.wire.types.registry import (
    decode_type_info,
    decoder,
    encode_type_info,
    encoder,
)

__all__ = [
    "DEFAULT_COLLATION_BYTES",
    "PLP",
    "DataType",
    "TypeInfo",
    "Value",
    "decode_type_info",
    "decoder",
    "encode_type_info",
    "encoder",
]
