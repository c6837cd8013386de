"""Conversions to xml and from it.

See: Create instances of XML data; Define the serialization of XML data.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, Final

from tailrace_emulator import messages
from tailrace_emulator.tsql.conversions.families import Family, family, is_national
from tailrace_emulator.values.types import SqlType
from tailrace_emulator.values.xml_form import XmlFormError, declared_encoding, xml_form

_WIDE: Final = frozenset({"utf-16", "ucs-2", "iso-10646-ucs-2"})
"""Encodings that the declaration of an nvarchar may name; no other text may name one of them."""
_MARKS: Final = ((b"\xff\xfe", "utf-16-le"), (b"\xfe\xff", "utf-16-be"), (b"\xef\xbb\xbf", "utf-8"))
_BEYOND: Final = re.compile("[\U00010000-\U0010ffff]")


def to_xml(source: SqlType, style: int | None) -> Callable[[Any], str] | None:
    """Text or bytes as xml; None for what is xml already.

    Args:
        source: the type of the value.
        style: of CONVERT: 1 keeps white space, 2 takes a document type, 3 does both.
    """
    if source.name == "xml":
        return None
    number = style or 0
    keeps_space, takes_dtd = bool(number & 1), bool(number & 2)
    is_wide = is_national(source)
    is_binary = family(source) is Family.BINARY

    def form(value: Any) -> str:
        text = _decoded(value) if is_binary else value.removeprefix("\ufeff")
        encoding = None if is_binary else declared_encoding(text)
        if encoding is not None and (encoding in _WIDE) != is_wide:
            raise messages.error(9402, 1, text.find("?>") + 1)
        try:
            return xml_form(text, keeps_space=keeps_space, takes_dtd=takes_dtd)
        except XmlFormError as error:
            place = () if error.number == 6359 else (error.line, error.character)
            raise messages.error(error.number, *place) from error

    return form


def _decoded(value: bytes) -> str:
    """Bytes as text: by their mark, else by their declaration, else as UTF-8."""
    for mark, encoding in _MARKS:
        if value.startswith(mark):
            return value[len(mark) :].decode(encoding, "replace")
    declared = declared_encoding(value[:200].decode("latin-1"))
    try:
        return value.decode(declared or "utf-8")
    except UnicodeDecodeError as error:
        raise messages.error(9420, 1, error.start + 1) from error
    except LookupError as error:
        raise messages.error(9402, 1, value.find(b"?>") + 1) from error


def xml_text(value: str) -> str:
    """Xml as text: a character beyond U+FFFF is written as a reference."""
    if value.isascii():
        return value
    return _BEYOND.sub(lambda found: f"&#x{ord(found[0]):08X};", value)


def xml_bytes(value: str) -> bytes:
    """Xml as bytes: UTF-16 after its mark."""
    return b"\xff\xfe" + xml_text(value).encode("utf-16-le")
