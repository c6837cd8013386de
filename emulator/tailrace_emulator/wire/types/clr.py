"""UDT: hierarchyid, geometry, geography. Values are the bytes as the type serialises itself.

https://learn.microsoft.com/openspecs/windows_protocols/ms-tds, CLR UDTs: results say length and
class of the type, parameters its name only; values are partially length-prefixed either way.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Any

from tailrace_emulator.wire.reader import Reader, b_varchar, us_varchar
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
)


class ClrFamily:
    """CLR types."""

    tokens = (DataType.UDT,)

    def encode_info(self, info: TypeInfo) -> bytes:
        """The most bytes of a value, the type's name, its class."""
        names = b"".join(map(b_varchar, info.type_name))
        return struct.pack("<H", info.length) + names + us_varchar(info.assembly_name)

    def decode_info(self, token: DataType, reader: Reader) -> TypeInfo:
        """The same."""
        length = reader.u16()
        name = (reader.b_varchar(), reader.b_varchar(), reader.b_varchar())
        return TypeInfo(token, length, type_name=name, assembly_name=reader.us_varchar())

    def encoder(self, info: TypeInfo) -> Encoder:
        """Partially length-prefixed."""

        def encode(value: Any) -> bytes:
            if value is None:
                return plp.NULL
            if len(value) > info.length and info.length != PLP:
                raise out_of_range(info, value)
            return plp.encode(value)

        return encode

    def decoder(self, info: TypeInfo) -> Decoder:  # noqa: ARG002 - any length is taken
        """Partially length-prefixed."""
        return plp.decode

    def columns(self, info: TypeInfo) -> PackPlan:
        """Length inside the struct, bytes after it."""

        def pieces(values: Sequence[Any]) -> tuple[Arguments, Sequence[bytes] | None]:
            if info.length != PLP and max(map(len, values)) > info.length:
                raise out_of_range(info, max(values, key=len))
            return plp.columns(values)

        return PackPlan(plp.FORMAT, pieces, plp.NULL, has_body=True)


def decode_parameter_info(reader: Reader) -> TypeInfo:
    """TYPE_INFO of a parameter, after its token: the type's name."""
    name = (reader.b_varchar(), reader.b_varchar(), reader.b_varchar())
    return TypeInfo(DataType.UDT, PLP, type_name=name)
