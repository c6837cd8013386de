"""The form in which SQL Server keeps xml: what it takes away from the text, and what it refuses.

The XML declaration goes, attribute values are in double quotes, CDATA sections become text, and
text of white space alone goes where nothing preserves it. A value may be a fragment: several
elements, and text between them.

See: Create instances of XML data (white space, CDATA, the declaration); Define the serialization of
XML data (which characters become references); sys.messages 9400 to 9460 and 6359.
Inferred: which number a text gets that breaks several rules, and at which character.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Final, NoReturn

_SPACE: Final = " \t\n"
_PART: Final = r"[A-Za-z_\u00c0-\U000effff][\w.\-\u00b7]*"
_NAME: Final = re.compile(f"{_PART}(?::{_PART})?")
_REFERENCE: Final = re.compile(
    r"&(?:#(?P<hex>x?)(?P<code>[0-9A-Fa-f]*)|(?P<name>[A-Za-z_][\w.\-]*))"
)
_DECLARATION: Final = re.compile(
    r"<\?xml\s+version\s*=\s*(?:'1\.[0-9]+'|\"1\.[0-9]+\")"
    r"(?:\s+encoding\s*=\s*(?:'(?P<one>[A-Za-z][\w.\-]*)'|\"(?P<other>[A-Za-z][\w.\-]*)\"))?"
    r"(?:\s+standalone\s*=\s*(?:'(?:yes|no)'|\"(?:yes|no)\"))?\s*\?>"
)
_ILLEGAL: Final = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\ud800-\udfff\ufffe\uffff]")
_ENTITIES: Final = {"lt": "<", "gt": ">", "amp": "&", "quot": '"', "apos": "'"}
_TEXT_REFERENCES: Final = {"&": "&amp;", "<": "&lt;", ">": "&gt;", "\r": "&#xD;"}
_VALUE_REFERENCES: Final = _TEXT_REFERENCES | {'"': "&quot;", "\t": "&#x9;", "\n": "&#xA;"}
_IN_TEXT: Final = re.compile("[&<>\r]")
_IN_VALUE: Final = re.compile('[&<>"\t\n\r]')


class XmlFormError(Exception):
    """A text that is not well-formed.

    Attributes:
        number: that of the message in sys.messages.
        line: where, counted from 1, as is the character.
    """

    def __init__(self, number: int, line: int, character: int) -> None:
        super().__init__(f"message {number} at line {line}, character {character}")
        self.number = number
        self.line = line
        self.character = character


def xml_form(text: str, *, keeps_space: bool = False, takes_dtd: bool = False) -> str:
    """The text as it is kept.

    Args:
        keeps_space: whether text of white space alone stays, as with style 1 of CONVERT.
        takes_dtd: whether a document type is skipped, as with style 2.

    Raises:
        XmlFormError: it is not well-formed.
    """
    return _Reader(text, keeps_space=keeps_space, takes_dtd=takes_dtd).read()


def declared_encoding(text: str) -> str | None:
    """The encoding that the XML declaration names, in lower case."""
    found = _DECLARATION.match(text)
    name = (found["one"] or found["other"]) if found is not None else None
    return None if name is None else name.lower()


@dataclass(slots=True)
class _Open:
    """An element whose end tag has not come."""

    name: str
    prefixes: frozenset[str]
    place: int
    """Of its start tag among what is written."""
    keeps_space: bool
    says_so: bool = False
    """Whether xml:space keeps white space, so that the next reader does too."""


@dataclass(slots=True)
class _Text:
    """Text between two tags: its characters, and whether it is more than white space."""

    parts: list[str] = field(default_factory=list)
    is_kept: bool = False


class _Reader:
    """Reads a text from left to right and writes the form that is kept."""

    def __init__(self, text: str, *, keeps_space: bool, takes_dtd: bool) -> None:
        self.text = text.replace("\r\n", "\n").replace("\r", "\n")
        self.takes_dtd = takes_dtd
        self.position = 0
        self.written: list[str] = []
        self.open: list[_Open] = [_Open("", frozenset({"xml"}), -1, keeps_space)]
        self.pending = _Text()

    def fail(self, number: int, position: int | None = None) -> NoReturn:
        place = self.position if position is None else position
        line = self.text.count("\n", 0, place) + 1
        raise XmlFormError(number, line, place - (self.text.rfind("\n", 0, place) + 1) + 1)

    def read(self) -> str:
        illegal = _ILLEGAL.search(self.text)
        if illegal is not None:
            self.fail(9420, illegal.start())
        self._declaration()
        text = self.text
        while self.position < len(text):
            end = text.find("<", self.position)
            end = len(text) if end < 0 else end
            if end > self.position:
                self._characters(end)
            if end < len(text):
                self._markup()
        self._flush()
        if len(self.open) > 1:
            self.fail(9400)
        return "".join(self.written)

    def _declaration(self) -> None:
        """``<?xml ..?>`` at the beginning, which is taken away."""
        if not re.match(r"<\?xml[\s?]", self.text):
            return
        found = _DECLARATION.match(self.text)
        if found is None:
            self.fail(9441)
        self.position = found.end()

    # Text ---------------------------------------------------------------------------------------

    def _characters(self, end: int) -> None:
        """Text up to the next markup."""
        text = self.text
        while self.position < end:
            at = text.find("&", self.position, end)
            at = end if at < 0 else at
            piece = text[self.position : at]
            if "]]>" in piece:
                self.fail(9454)
            self.pending.parts.append(piece)
            self.pending.is_kept |= bool(piece.strip(_SPACE))
            self.position = at
            if at < end:
                self.pending.parts.append(self._reference())
                self.pending.is_kept = True

    def _reference(self) -> str:
        """``&name;`` or ``&#number;``."""
        start = self.position
        found = _REFERENCE.match(self.text, start)
        if found is None:
            self.fail(9421, start + 1)
        self.position = found.end()
        if found["name"] is not None:
            value = _ENTITIES.get(found["name"])
        else:
            value = self._character(found["code"], is_hex=bool(found["hex"]))
        if not self.text.startswith(";", self.position):
            self.fail(9411)
        if value is None:
            self.fail(9448)
        self.position += 1
        return value

    def _character(self, code: str, *, is_hex: bool) -> str:
        if not code or (not is_hex and not code.isdecimal()):
            self.fail(9416 if is_hex else 9417)
        number = int(code, 16 if is_hex else 10)
        if number > 0x10FFFF or _ILLEGAL.match(chr(number)):
            self.fail(9420)
        return chr(number)

    def _flush(self) -> None:
        """Text is at its end: it is written, unless it is white space that nothing preserves."""
        parts, is_kept = self.pending.parts, self.pending.is_kept
        self.pending = _Text()
        text = "".join(parts)
        if not text or not (is_kept or self.open[-1].keeps_space):
            return
        if not text.strip(" \t\n\r") and not self.open[-1].says_so:
            # A reference protects it from the next reader, who would take it away.
            self.written.append(text[:-1].replace("\r", "&#xD;") + f"&#x{ord(text[-1]):X};")
            return
        self.written.append(_IN_TEXT.sub(lambda m: _TEXT_REFERENCES[m[0]], text))

    # Markup -------------------------------------------------------------------------------------

    def _markup(self) -> None:
        text, position = self.text, self.position
        if text.startswith("<![CDATA[", position):
            end = self._find("]]>", position + 9, 9423)
            self.pending.parts.append(text[position + 9 : end])
            self.pending.is_kept = True
            return
        self._flush()
        if text.startswith("<!--", position):
            end = self._find("-->", position + 4, 9424)
            if "--" in text[position + 4 : end]:
                self.fail(9424, position)
            self.written.append(text[position : end + 3])
        elif text.startswith("<?", position):
            self._instruction()
        elif text.startswith("<!DOCTYPE", position):
            self._document_type()
        elif text.startswith("<!", position):
            self.fail(9422)
        elif text.startswith("</", position):
            self._end_tag()
        else:
            self._start_tag()

    def _find(self, mark: str, start: int, number: int) -> int:
        """Where a mark begins; the position moves past it."""
        end = self.text.find(mark, start)
        if end < 0:
            self.fail(number if start < len(self.text) else 9400)
        self.position = end + len(mark)
        return end

    def _instruction(self) -> None:
        start = self.position
        name = _NAME.match(self.text, start + 2)
        if name is None:
            self.fail(9455, start + 2)
        if name[0].lower() == "xml":
            self.fail(9438)
        self._find("?>", name.end(), 9400)
        self.written.append(self.text[start : self.position])

    def _document_type(self) -> None:
        if not self.takes_dtd:
            self.fail(6359)
        depth = 0
        while self.position < len(self.text):
            character = self.text[self.position]
            self.position += 1
            depth += (character in "<[") - (character in ">]")
            if depth == 0:
                return
        self.fail(9400)

    def _name(self) -> str:
        found = _NAME.match(self.text, self.position)
        if found is None:
            self.fail(9400 if self.position >= len(self.text) else 9455)
        self.position = found.end()
        return found[0]

    def _space(self) -> bool:
        start = self.position
        while self.position < len(self.text) and self.text[self.position] in _SPACE:
            self.position += 1
        return self.position > start

    def _end_tag(self) -> None:
        self.position += 2
        name = self._name()
        self._space()
        if not self.text.startswith(">", self.position):
            self.fail(9412)
        if len(self.open) == 1 or self.open[-1].name != name:
            self.fail(9436)
        self.position += 1
        if self.open.pop().place == len(self.written) - 1:
            self.written[-1] = f"{self.written[-1][:-1]}/>"
        else:
            self.written.append(f"</{name}>")

    def _start_tag(self) -> None:
        self.position += 1
        name = self._name()
        attributes = self._attributes()
        outer = self.open[-1]
        declared = {n[6:] for n in attributes if n.startswith("xmlns:")}
        prefixes = outer.prefixes | declared
        for used in (name, *attributes):
            prefix = used.partition(":")[0] if ":" in used else ""
            if prefix and prefix != "xmlns" and prefix not in prefixes:
                self.fail(9459)
        keeps, says_so = outer.keeps_space, outer.says_so
        if attributes.get("xml:space") in {"preserve", "default"}:
            keeps = says_so = attributes["xml:space"] == "preserve"
        shown = "".join(
            f' {n}="{_IN_VALUE.sub(lambda m: _VALUE_REFERENCES[m[0]], v)}"'
            for n, v in attributes.items()
        )
        if self.text.startswith("/>", self.position):
            self.position += 2
            self.written.append(f"<{name}{shown}/>")
        elif self.text.startswith(">", self.position):
            self.position += 1
            self.open.append(_Open(name, prefixes, len(self.written), keeps, says_so))
            self.written.append(f"<{name}{shown}>")
        else:
            self.fail(9400 if self.position >= len(self.text) else 9455)

    def _attributes(self) -> dict[str, str]:
        """The attributes of a start tag, in their order."""
        found: dict[str, str] = {}
        while True:
            spaced = self._space()
            if self.position >= len(self.text) or self.text[self.position] in "/>":
                return found
            if not spaced:
                self.fail(9410 if found else 9455)
            name = self._name()
            if name in found:
                self.fail(9437)
            self._space()
            if not self.text.startswith("=", self.position):
                self.fail(9414)
            self.position += 1
            self._space()
            found[name] = self._value()
            if name.startswith("xmlns:") and not found[name]:
                self.fail(9460)

    def _value(self) -> str:
        """A quoted value, as it is: SQL Server keeps its tabs and line feeds."""
        quote = self.text[self.position : self.position + 1]
        if quote not in {'"', "'"}:
            self.fail(9413)
        self.position += 1
        parts: list[str] = []
        while True:
            if self.position >= len(self.text):
                self.fail(9400)
            character = self.text[self.position]
            if character == quote:
                self.position += 1
                return "".join(parts)
            if character == "<":
                self.fail(9415)
            if character == "&":
                parts.append(self._reference())
                continue
            parts.append(character)
            self.position += 1
