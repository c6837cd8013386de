"""NVARCHAR, NCHAR, BIGVARCHAR, BIGCHAR, XML and the legacy TEXT and NTEXT. Values are str.

(n)char and n(var)char lengths count bytes here. The n types are UTF-16; a lone surrogate travels as
it is, as in SQL Server. The others are in the code page of their collation (code_pages.py).
"""

from __future__ import annotations

import codecs
import struct
from collections.abc import Callable, Sequence
from typing import Any, Final

from tailrace_emulator.wire.code_pages import collation_code_page
from tailrace_emulator.wire.errors import RemoteProtocolError
from tailrace_emulator.wire.half_pairs import encode_units
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
    Value,
    out_of_range,
    whole_values,
)
from tailrace_emulator.wire.types.binaries import counted_decoder

_UTF16_TOKENS: Final = (DataType.NVARCHAR, DataType.NCHAR, DataType.NTEXT, DataType.XML)
_LONG_TOKENS: Final = (DataType.TEXT, DataType.NTEXT)
_LEGACY_TOKENS: Final = (DataType.VARCHAR_LEGACY, DataType.CHAR_LEGACY)
_PADDED_TOKENS: Final = (DataType.NCHAR, DataType.BIGCHAR)
_LENGTH: Final = struct.Struct("<H")
_NULL: Final = b"\xff\xff"


def encode_utf16(text: str) -> bytes:
    """UTF-16, little-endian; TypeError for what is no text, as columns of values rely on."""
    return encode_units(text)


def decode_utf16(raw: bytes) -> str:
    """UTF-16, little-endian.

    Raises:
        RemoteProtocolError: an odd number of bytes.
    """
    if len(raw) & 1:
        raise RemoteProtocolError(f"UTF-16 value of {len(raw)} bytes")
    # The codec itself: bytes.decode looks it up each time.
    return codecs.utf_16_le_decode(raw, "surrogatepass", True)[0]


def _text_codec(info: TypeInfo) -> tuple[Callable[[str], bytes], Callable[[bytes], str]]:
    if info.token in _UTF16_TOKENS:
        return encode_utf16, decode_utf16
    page = collation_code_page(info.collation)
    return page.encode, page.decode


class CharacterFamily:
    """char, varchar, nchar, nvarchar and their (max) forms, text, ntext, xml."""

    tokens = (
        DataType.NVARCHAR,
        DataType.NCHAR,
        DataType.BIGVARCHAR,
        DataType.BIGCHAR,
        DataType.VARCHAR_LEGACY,
        DataType.CHAR_LEGACY,
        DataType.TEXT,
        DataType.NTEXT,
        DataType.XML,
    )

    def encode_info(self, info: TypeInfo) -> bytes:
        """Length and collation; for xml that it has no schema collection."""
        if info.token is DataType.XML:
            return b"\0"
        if info.token in _LONG_TOKENS:
            return struct.pack("<I", info.length) + info.collation
        if info.token in _LEGACY_TOKENS:
            return bytes((info.length,)) + info.collation
        return _LENGTH.pack(info.length) + info.collation

    def decode_info(self, token: DataType, reader: Reader) -> TypeInfo:
        """Length and collation; xml's schema collection is taken and ignored."""
        if token is DataType.XML:
            if reader.u8():
                reader.b_varchar()
                reader.b_varchar()
                reader.us_varchar()
            return TypeInfo(token, PLP)
        if token in _LONG_TOKENS:
            length = reader.u32()
        else:
            length = reader.u8() if token in _LEGACY_TOKENS else reader.u16()
        return TypeInfo(token, length, collation=reader.take(5))

    def encoder(self, info: TypeInfo) -> Encoder:
        """Length in bytes, characters; (n)char is filled with blanks."""
        to_bytes, _ = _text_codec(info)
        if info.length == PLP:
            return lambda value: plp.NULL if value is None else plp.encode(to_bytes(value))
        layout = "<I" if info.token in _LONG_TOKENS else "<H"
        head = struct.Struct("<B" if info.token in _LEGACY_TOKENS else layout).pack
        null = {"<I": b"\xff" * 4, "<H": _NULL}[layout]
        null = b"\0" if info.token in _LEGACY_TOKENS else null
        pad = to_bytes(" ") if info.token in _PADDED_TOKENS else b""

        def encode(value: Any) -> bytes:
            if value is None:
                return null
            raw = to_bytes(value)
            if len(raw) > info.length:
                raise out_of_range(info, value)
            if pad:
                raw += pad * ((info.length - len(raw)) // len(pad))
            return head(len(raw)) + raw

        return encode

    def decoder(self, info: TypeInfo) -> Decoder:
        """Length in bytes, characters."""
        _, to_text = _text_codec(info)
        if info.length == PLP and info.token not in _LONG_TOKENS:

            def decode_plp(reader: Reader) -> Value:
                raw = plp.decode(reader)
                return None if raw is None else to_text(raw)

            return _without_mark(decode_plp) if info.token is DataType.XML else decode_plp

        take = counted_decoder(info)

        def decode(reader: Reader) -> Value:
            raw = take(reader)
            return None if raw is None else to_text(raw)

        return decode

    def columns(self, info: TypeInfo) -> PackPlan:
        """Length inside the struct, characters after it."""
        to_bytes, _ = _text_codec(info)
        if info.length == PLP:
            return PackPlan(
                plp.FORMAT,
                lambda values: plp.columns([to_bytes(value) for value in values]),
                plp.NULL,
                has_body=True,
            )
        if info.token in _PADDED_TOKENS:
            return PackPlan(f"{info.length + 2}s", whole_values(self.encoder(info)), _NULL)
        utf16 = to_bytes is encode_utf16

        def lengths_and_bodies(values: Sequence[Any]) -> tuple[Arguments, Sequence[bytes] | None]:
            if utf16:  # the codec itself: str.encode looks it up each time, at thrice the cost
                bodies = [codecs.utf_16_le_encode(v, "surrogatepass")[0] for v in values]
                if b"\xdb" in b"".join(bodies):  # perhaps of a half that is kept
                    bodies = list(map(encode_units, values))
            elif "".join(values).isascii():
                bodies = [value.encode() for value in values]
            else:
                bodies = [to_bytes(value) for value in values]
            lengths = list(map(len, bodies))
            if max(lengths) > info.length:
                raise out_of_range(info, max(values, key=len))
            return (lengths,), bodies

        return PackPlan("H", lengths_and_bodies, _NULL, has_body=True)


def _without_mark(decode: Decoder) -> Decoder:
    """Xml parameters may begin with a byte order mark, which is not part of the value."""

    def decode_xml(reader: Reader) -> Value:
        text = decode(reader)
        return text[1:] if isinstance(text, str) and text[:1] == "\ufeff" else text

    return decode_xml
