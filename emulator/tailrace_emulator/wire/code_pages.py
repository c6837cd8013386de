"""The code pages of char and varchar, and which of them a collation on the wire means.

Every byte of a single-byte code page has a character, as in Windows. Bytes that a code page leaves
open are control characters below 0xA0 and private ones above. A character that a code page lacks
becomes its best fit (best_fit.py), or '?', once for each of its UTF-16 units.

MS-TDS 2.2.5.1.2: a collation is five bytes, an LCID of 20 bits, flags, a version and a sort id.
With a sort id the code page is the sort order's, else the locale's.
"""

from __future__ import annotations

import codecs
from collections.abc import Callable
from functools import lru_cache
from typing import Final

from tailrace_emulator.wire.best_fit import best_fit

UTF8: Final = 65001
UTF8_FLAG: Final = 0x04000000
_LCID: Final = 0xFFFFF
_WESTERN: Final = 1252

_PRIVATE: Final = {
    874: {0xDB: 0xF8C1, 0xDC: 0xF8C2, 0xDD: 0xF8C3, 0xDE: 0xF8C4, 0xFC: 0xF8C5, 0xFD: 0xF8C6,
          0xFE: 0xF8C7, 0xFF: 0xF8C8},
    1253: {0xAA: 0xF8F9, 0xD2: 0xF8FA, 0xFF: 0xF8FB},
    1255: {0xCA: 0x05BA, 0xD9: 0xF88D, 0xDA: 0xF88E, 0xDB: 0xF88F, 0xDC: 0xF890, 0xDD: 0xF891,
           0xDE: 0xF892, 0xDF: 0xF893, 0xFB: 0xF894, 0xFC: 0xF895, 0xFF: 0xF896},
    1257: {0xA1: 0xF8FC, 0xA5: 0xF8FD},
}  # fmt: skip
"""What Windows makes of the bytes above 0x9F that a code page leaves open."""

_MULTIBYTE: Final = {932: "cp932", 936: "gbk", 949: "cp949", 950: "cp950"}
_EURO_936: Final = b"\x80"
"""Windows has the euro sign in code page 936, where GBK has nothing."""

_LOCALES: Final = {
    874: "041e",
    932: "0411 10411 40411",
    936: "0804 1004 20804 21004",
    949: "0412 10412",
    950: "0404 0c04 1404 21404 30404 40404",
    1250: "0405 040e 1040e 0415 0418 041a 041b 041c 0424 0442 081a 101a 141a 181a",
    1251: "0402 0419 0422 0423 0428 042f 043f 0440 0444 0450 046d 0485 082c 0843 0850 0c1a 1c1a"
    " 201a",
    1253: "0408",
    1254: "041f 042c 0443",
    1255: "040d",
    1256: "0401 0420 0429 0480 048c 0801 0c01 1001 1401 1801 1c01 2001 2401 2801 2c01 3001 3401"
    " 3801 3c01 4001",
    1257: "0425 0426 0427 0827",
    1258: "042a",
}
"""Locales whose code page is not 1252, in hexadecimal."""

_SORT_ORDERS: Final = (
    (437, 30, 35), (850, 40, 45), (850, 49, 49), (1252, 50, 54), (850, 55, 61), (1252, 71, 75),
    (1250, 80, 98), (1251, 104, 108), (1253, 112, 124), (1254, 128, 130), (1255, 136, 138),
    (1256, 144, 146), (1257, 152, 160), (1252, 183, 186), (932, 192, 193), (949, 194, 195),
    (950, 196, 197), (936, 198, 199), (932, 200, 200), (949, 201, 201), (950, 202, 202),
    (936, 203, 203), (874, 204, 206), (1252, 210, 217),
)  # fmt: skip
"""Code page, first and last sort id."""

_BY_LOCALE: Final = {
    int(locale, 16): page for page, locales in _LOCALES.items() for locale in locales.split()
}


class CodePage:
    """One code page: characters to bytes and back.

    Attributes:
        number: as Windows numbers it; 65001 is UTF-8.
        is_multibyte: whether a character may take more than one byte.
    """

    __slots__ = ("is_multibyte", "number")

    def __init__(self, number: int, *, is_multibyte: bool) -> None:
        self.number = number
        self.is_multibyte = is_multibyte

    def encode(self, text: str) -> bytes:
        """The bytes of a text; best fit or '?' for what the code page lacks."""
        raise NotImplementedError

    def decode(self, raw: bytes) -> str:
        """The text of bytes."""
        raise NotImplementedError

    def kept(self, text: str) -> str:
        """What is left of a text when it goes through the code page."""
        return text if text.isascii() else self.decode(self.encode(text))

    def cut(self, text: str, size: int) -> str:
        """The longest beginning of a text that takes at most ``size`` bytes."""
        if not self.is_multibyte or text.isascii():
            return text[:size]
        if len(text) <= size // 4:
            return text
        total = 0
        for position, character in enumerate(text):
            total += len(self.encode(character))
            if total > size:
                return text[:position]
        return text

    def size(self, text: str) -> int:
        """Bytes of a text that the code page has."""
        if not self.is_multibyte or text.isascii():
            return len(text)
        return len(self.encode(text))


def _fitting(number: int, has: Callable[[str], bool]) -> str:
    """The name of an error handler that takes the best fit of what a code page lacks, or '?'.

    Args:
        number: of the code page.
        has: whether the code page has a character.
    """

    def replaced(character: str) -> str:
        unknown = "??" if ord(character) > 0xFFFF else "?"
        return next(filter(has, best_fit(character, number)), unknown)

    def handle(error: UnicodeError) -> tuple[str, int]:
        if not isinstance(error, UnicodeEncodeError):
            raise error
        return "".join(map(replaced, error.object[error.start : error.end])), error.end

    name = f"tailrace_best_fit_{number}"
    codecs.register_error(name, handle)
    return name


class _SingleByte(CodePage):
    """A code page of 256 characters."""

    __slots__ = ("_characters", "_fitting", "_to_bytes")

    def __init__(self, number: int) -> None:
        super().__init__(number, is_multibyte=False)
        private = _PRIVATE.get(number, {})
        characters = []
        for byte in range(256):
            known = bytes((byte,)).decode(f"cp{number}", "ignore")
            characters.append(known or chr(private.get(byte, byte)))
        self._characters = "".join(characters)
        self._fitting = _fitting(number, self._has)
        self._to_bytes = codecs.charmap_build(self._characters)

    def encode(self, text: str) -> bytes:
        """One byte for each UTF-16 unit."""
        return codecs.charmap_encode(text, self._fitting, self._to_bytes)[0]

    def _has(self, character: str) -> bool:
        return character in self._characters

    def decode(self, raw: bytes) -> str:
        """One character for each byte."""
        return codecs.charmap_decode(raw, "strict", self._characters)[0]


class _DoubleByte(CodePage):
    """A code page of one and two bytes."""

    __slots__ = ("_codec", "_fitting")

    def __init__(self, number: int) -> None:
        super().__init__(number, is_multibyte=True)
        self._codec = _MULTIBYTE[number]
        self._fitting = _fitting(number, self._has)

    def encode(self, text: str) -> bytes:
        """One or two bytes for each character."""
        if self.number == 936 and "€" in text:
            return _EURO_936.join(map(self.encode, text.split("€")))
        return text.encode(self._codec, self._fitting)

    def _has(self, character: str) -> bool:
        return self.decode(character.encode(self._codec, "replace")) == character

    def decode(self, raw: bytes) -> str:
        """Bytes that are no character become U+FFFD."""
        try:
            return raw.decode(self._codec)
        except UnicodeDecodeError:
            if self.number == 936:
                return "€".join(part.decode(self._codec, "replace") for part in _split_euros(raw))
            return raw.decode(self._codec, "replace")


def _split_euros(raw: bytes) -> list[bytes]:
    """Text of code page 936 between its euro signs."""
    parts, start, position = [], 0, 0
    while position < len(raw):
        if raw[position] == _EURO_936[0]:
            parts.append(raw[start:position])
            start = position + 1
        position += 2 if raw[position] > 0x80 else 1
    return [*parts, raw[start:]]


class _Utf8(CodePage):
    """UTF-8, the code page of the ``_UTF8`` collations."""

    __slots__ = ()

    def __init__(self) -> None:
        super().__init__(UTF8, is_multibyte=True)

    def encode(self, text: str) -> bytes:
        """A lone surrogate becomes U+FFFD."""
        try:
            return text.encode()
        except UnicodeEncodeError:
            return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace").encode()

    def decode(self, raw: bytes) -> str:
        """Bytes that are no character become U+FFFD."""
        return raw.decode("utf-8", "replace")


@lru_cache(maxsize=64)
def code_page(number: int) -> CodePage:
    """The code page of that number."""
    if number == UTF8:
        return _Utf8()
    return _DoubleByte(number) if number in _MULTIBYTE else _SingleByte(number)


@lru_cache(maxsize=1024)
def collation_code_page(collation: bytes) -> CodePage:
    """The code page of a collation as it travels."""
    info = int.from_bytes(collation[:4], "little")
    if info & UTF8_FLAG:
        return code_page(UTF8)
    sort_id = collation[4] if len(collation) > 4 else 0
    if sort_id:
        found = (page for page, first, last in _SORT_ORDERS if first <= sort_id <= last)
        return code_page(next(found, _WESTERN))
    return code_page(locale_code_page(info & _LCID))


def locale_code_page(lcid: int) -> int:
    """Number of a locale's code page."""
    return _BY_LOCALE.get(lcid) or _BY_LOCALE.get(lcid & 0xFFFF, _WESTERN)
