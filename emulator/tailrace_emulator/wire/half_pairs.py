"""Halves of surrogate pairs in text: how they are kept, and text by its UTF-16 code units.

nvarchar holds any code units, also a half whose other half is not there. SQLite holds characters
only, so a half is kept as one of the last 2,048 characters of all, which are for private use. Such
a character itself is kept as its two halves. What leaves this server has the code units again.

See: nchar and nvarchar (Transact-SQL); Collation and Unicode support, supplementary characters.
"""

from __future__ import annotations

import codecs
import re
from typing import Final, TypeVar

T = TypeVar("T")

_FIRST: Final = 0x10F800
_SHIFT: Final = _FIRST - 0xD800
_LOW: Final = 0xDC00 + _SHIFT
_KEPT: Final = "\U0010f800-\U0010ffff"
_TO_KEEP: Final = re.compile(f"[\ud800-\udfff{_KEPT}]")
_KEPT_HALF: Final = re.compile(f"[{_KEPT}]")
_BEYOND: Final = re.compile("[\U00010000-\U0010f7ff]")
# The pairs of the last 2,048 characters stay apart.
_KEPT_PAIR: Final = re.compile("[\U0010f800-\U0010fbfd][\U0010fc00-\U0010ffff]")


def kept_halves(text: str) -> str:
    """A text as it is kept, whose halves may be lone surrogates."""
    if text.isascii():
        return text
    return _TO_KEEP.sub(_kept, text)


def kept_value(value: T) -> T | str:
    """A value as it is kept; what is no text stays as it is."""
    return kept_halves(value) if isinstance(value, str) else value


def _kept(found: re.Match[str]) -> str:
    code = ord(found[0])
    return chr(code + _SHIFT) if code < _FIRST else _halves(code)


def _halves(code: int) -> str:
    """A character beyond U+FFFF as its two halves, as they are kept."""
    offset = code - 0x10000
    return chr(_FIRST + (offset >> 10)) + chr(_LOW + (offset & 0x3FF))


def encode_units(text: str) -> bytes:
    """UTF-16, little-endian, of a text as it is kept."""
    raw = codecs.utf_16_le_encode(text, "surrogatepass")[0]
    # Every half that is kept would be a pair whose first one is U+DBFE or U+DBFF.
    if b"\xfe\xdb" not in raw and b"\xff\xdb" not in raw:
        return raw
    halves = _KEPT_HALF.sub(lambda found: chr(ord(found[0]) - _SHIFT), text)
    return codecs.utf_16_le_encode(halves, "surrogatepass")[0]


def decode_units(raw: bytes) -> str:
    """UTF-16, little-endian, an even number of bytes, as a text that is kept."""
    return kept_halves(codecs.utf_16_le_decode(raw, "surrogatepass", True)[0])


def units(text: str) -> int:
    """Length in UTF-16 code units, as nvarchar counts."""
    if text.isascii():
        return len(text)
    return len(text) + len(_BEYOND.findall(text))


def spread(text: str) -> str:
    """A text in which each character stands for one code unit."""
    return text if text.isascii() else _BEYOND.sub(lambda found: _halves(ord(found[0])), text)


def joined(text: str) -> str:
    """The inverse of :func:`spread`: two halves that belong together are one character again."""
    if text.isascii():
        return text
    return _KEPT_PAIR.sub(
        lambda pair: chr(0x10000 + ((ord(pair[0][0]) - _FIRST) << 10) + ord(pair[0][1]) - _LOW),
        text,
    )
