"""JSON as SQL Server keeps it: text whose parts are found, not rebuilt.

JSON_QUERY yields a part of its argument as it was written, and JSON_VALUE the digits of a number.
So a document is a tree of places in its text.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from enum import IntEnum
from functools import lru_cache
from typing import Final, NoReturn

from tailrace_emulator import messages

_SPACE: Final = re.compile(r"[ \t\r\n]*")
_NUMBER: Final = re.compile(r"-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?")
_STRING: Final = re.compile(r'"(?:[^"\\\x00-\x1f]|\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4}))*"')
_ESCAPE: Final = re.compile(r'\\(?:u([0-9a-fA-F]{4})|(["\\/bfnrt]))')
_NAMED: Final = {"b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t"}
_DEPTH_MAX: Final = 128


class JsonKind(IntEnum):
    """Kinds of values, numbered as OPENJSON's column ``type``."""

    NULL = 0
    STRING = 1
    NUMBER = 2
    BOOLEAN = 3
    ARRAY = 4
    OBJECT = 5


@dataclass(slots=True)
class JsonNode:
    """A value: its place in the text and what it holds.

    Attributes:
        start: offset of its first character.
        end: offset after its last.
        items: elements of an array.
        members: (name, name's offset, value) of an object, in order; a name may come twice.
    """

    kind: JsonKind
    start: int
    end: int
    items: list[JsonNode] = field(default_factory=list)
    members: list[tuple[str, int, JsonNode]] = field(default_factory=list)

    @property
    def is_container(self) -> bool:
        """Whether it is an object or array."""
        return self.kind in {JsonKind.ARRAY, JsonKind.OBJECT}

    def member(self, name: str) -> JsonNode | None:
        """The first member of that name."""
        return next((node for known, _, node in self.members if known == name), None)


class _Reader:
    """Recursive descent over one text."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.position = 0
        self.depth = 0

    def document(self) -> JsonNode:
        """The whole text."""
        node = self.value()
        self.space()
        if self.position < len(self.text):
            self.fail()
        return node

    def space(self) -> None:
        match = _SPACE.match(self.text, self.position)
        self.position = match.end() if match else self.position

    def fail(self) -> NoReturn:
        """Raises 13609 at the current place."""
        at = min(self.position, max(len(self.text) - 1, 0))
        found = self.text[at : at + 1] or "."
        raise messages.error(13609, found, self.position)

    def value(self) -> JsonNode:
        self.space()
        start = self.position
        first = self.text[start : start + 1]
        if first in {"{", "["}:
            self.depth += 1
            if self.depth > _DEPTH_MAX:
                raise messages.error(13610)
            node = self._object(start) if first == "{" else self._array(start)
            self.depth -= 1
            return node
        if first == '"':
            return JsonNode(JsonKind.STRING, start, self._match(_STRING))
        for word, kind in (
            ("true", JsonKind.BOOLEAN),
            ("false", JsonKind.BOOLEAN),
            ("null", JsonKind.NULL),
        ):
            if self.text.startswith(word, start):
                self.position = start + len(word)
                return JsonNode(kind, start, self.position)
        return JsonNode(JsonKind.NUMBER, start, self._match(_NUMBER))

    def _match(self, pattern: re.Pattern[str]) -> int:
        match = pattern.match(self.text, self.position)
        if match is None:
            self.fail()
        self.position = match.end()
        return self.position

    def _array(self, start: int) -> JsonNode:
        node = JsonNode(JsonKind.ARRAY, start, start)
        self.position += 1
        self.space()
        if not self._take("]"):
            while True:
                node.items.append(self.value())
                self.space()
                if self._take("]"):
                    break
                self._expect(",")
        node.end = self.position
        return node

    def _object(self, start: int) -> JsonNode:
        node = JsonNode(JsonKind.OBJECT, start, start)
        self.position += 1
        self.space()
        if not self._take("}"):
            while True:
                self.space()
                at = self.position
                end = self._match(_STRING)
                name = unescaped(self.text[at:end])
                self.space()
                self._expect(":")
                node.members.append((name, at, self.value()))
                self.space()
                if self._take("}"):
                    break
                self._expect(",")
        node.end = self.position
        return node

    def _take(self, character: str) -> bool:
        if self.text.startswith(character, self.position):
            self.position += 1
            return True
        return False

    def _expect(self, character: str) -> None:
        if not self._take(character):
            self.fail()


@lru_cache(maxsize=256)
def _parsed(text: str) -> JsonNode:
    return _Reader(text).document()


_CACHED_LENGTH_MAX: Final = 65_536


def parse(text: str) -> JsonNode:
    """The tree of a JSON text.

    Raises:
        SqlError: 13609 when it is not JSON.
    """
    return _parsed(text) if len(text) <= _CACHED_LENGTH_MAX else _Reader(text).document()


def unescaped(quoted: str) -> str:
    """The text of a JSON string with its quotation marks."""
    inner = quoted[1:-1]
    if "\\" not in inner:
        return inner

    def plain(match: re.Match[str]) -> str:
        if match[1]:
            return chr(int(match[1], 16))
        return _NAMED.get(match[2], match[2])

    text = _ESCAPE.sub(plain, inner)
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


_ESCAPED: Final = {
    '"': '\\"',
    "\\": "\\\\",
    "/": "\\/",
    "\b": "\\b",
    "\f": "\\f",
    "\n": "\\n",
    "\r": "\\r",
    "\t": "\\t",
}
_TO_ESCAPE: Final = re.compile(r'["\\/\x00-\x1f]')


def escaped(text: str) -> str:
    """A text as it stands inside a JSON string; a slash is escaped too, as SQL Server does."""
    return _TO_ESCAPE.sub(lambda m: _ESCAPED.get(m[0]) or f"\\u{ord(m[0]):04x}", text)


def scalar_text(text: str, node: JsonNode) -> str | None:
    """What JSON_VALUE yields of a scalar: NULL for null."""
    if node.kind is JsonKind.NULL:
        return None
    raw = text[node.start : node.end]
    return unescaped(raw) if node.kind is JsonKind.STRING else raw
