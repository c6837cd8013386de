"""Every type that is spoken, by its token."""

from __future__ import annotations

from functools import lru_cache
from typing import Final

from tailrace_emulator.wire.errors import RemoteProtocolError, UnsupportedTypeError
from tailrace_emulator.wire.reader import Reader
from tailrace_emulator.wire.types.base import DataType, Decoder, Encoder, TypeFamily, TypeInfo
from tailrace_emulator.wire.types.binaries import BinaryFamily
from tailrace_emulator.wire.types.characters import CharacterFamily
from tailrace_emulator.wire.types.clr import ClrFamily
from tailrace_emulator.wire.types.decimals import DecimalFamily, MoneyFamily
from tailrace_emulator.wire.types.floats import FloatFamily
from tailrace_emulator.wire.types.guids import GuidFamily
from tailrace_emulator.wire.types.integers import IntegerFamily
from tailrace_emulator.wire.types.nulls import NullFamily
from tailrace_emulator.wire.types.times import DateFamily, DatetimeFamily, ScaledTimeFamily
from tailrace_emulator.wire.types.variants import VariantFamily

_FAMILIES: Final[tuple[TypeFamily, ...]] = (
    IntegerFamily(),
    FloatFamily(),
    DecimalFamily(),
    MoneyFamily(),
    GuidFamily(),
    DateFamily(),
    ScaledTimeFamily(),
    DatetimeFamily(),
    BinaryFamily(),
    CharacterFamily(),
    VariantFamily(),
    NullFamily(),
    ClrFamily(),
)
_BY_TOKEN: Final[dict[int, TypeFamily]] = {
    int(token): family for family in _FAMILIES for token in family.tokens
}
_KNOWN: Final = {int(token): token for token in DataType}


def family(token: DataType) -> TypeFamily:
    """The family of a type.

    Raises:
        UnsupportedTypeError: the type exists but is not spoken here.
    """
    found = _BY_TOKEN.get(token)
    if found is None:
        raise UnsupportedTypeError(token.name)
    return found


def encode_type_info(info: TypeInfo) -> bytes:
    """TYPE_INFO."""
    return bytes((info.token,)) + family(info.token).encode_info(info)


def decode_type_info(reader: Reader) -> TypeInfo:
    """TYPE_INFO.

    Raises:
        UnsupportedTypeError: the type exists but is not spoken here.
        RemoteProtocolError: there is no such type, or not with these parameters.
    """
    byte = reader.u8()
    token = _KNOWN.get(byte)
    if token is None:
        raise RemoteProtocolError(f"unknown type token 0x{byte:02x}")
    return family(token).decode_info(token, reader)


_INFO_BYTES: Final[dict[int, int]] = {
    DataType.INTN: 2,
    DataType.BITN: 2,
    DataType.FLTN: 2,
    DataType.MONEYN: 2,
    DataType.DATETIMEN: 2,
    DataType.GUID: 2,
    DataType.DATEN: 1,
    DataType.TIMEN: 2,
    DataType.DATETIME2N: 2,
    DataType.DATETIMEOFFSETN: 2,
    DataType.DECIMALN: 4,
    DataType.NUMERICN: 4,
    DataType.BIGVARBINARY: 3,
    DataType.BIGBINARY: 3,
    DataType.BIGVARCHAR: 8,
    DataType.BIGCHAR: 8,
    DataType.NVARCHAR: 8,
    DataType.NCHAR: 8,
}
"""Size of TYPE_INFO, token included, where the token determines it."""

_INFO_SIZES: Final = tuple([_INFO_BYTES.get(token, 0) for token in range(256)])

_TYPED_MAX: Final = 4096
_typed: dict[bytes, tuple[TypeInfo, Decoder]] = {}


def typed_decoder(reader: Reader) -> tuple[TypeInfo, Decoder]:
    """TYPE_INFO and what decodes its values; types seen before are known by their bytes.

    Raises:
        UnsupportedTypeError: the type exists but is not spoken here.
        RemoteProtocolError: there is no such type, or not with these parameters.
    """
    data, start = reader.data, reader.position
    size = _INFO_SIZES[data[start]] if start < len(data) else 0
    raw = data[start : start + size]
    known = _typed.get(raw)
    if known is not None:
        reader.position = start + size
        return known
    info = decode_type_info(reader)
    made = info, decoder(info)
    if size and size == reader.position - start:
        if len(_typed) >= _TYPED_MAX:
            _typed.clear()
        _typed[raw] = made
    return made


@lru_cache(maxsize=1024)
def encoder(info: TypeInfo) -> Encoder:
    """Encodes one value of the type."""
    return family(info.token).encoder(info)


@lru_cache(maxsize=1024)
def decoder(info: TypeInfo) -> Decoder:
    """Takes one value of the type."""
    return family(info.token).decoder(info)
