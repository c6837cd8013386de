"""FOR XML: rows as elements.

https://learn.microsoft.com/sql/relational-databases/xml/for-xml-sql-server
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final

from tailrace_emulator.tsql.functions.sqlite_functions import AGGREGATES

_CACHED: Final = 256
_XSI: Final = ' xmlns:xsi="http://www.w3.org/2001/XMLSchema-instance"'
_INLINE: Final = frozenset({"", "*", "text()", "node()", "data()"})
_NAME_START: Final = re.compile(r"[A-Za-z_\u0080-\uffff]")
_NAME_REST: Final = re.compile(r"[\w.\-\u0080-\uffff]")


@dataclass(frozen=True, slots=True)
class XmlColumn:
    """A column: the elements around it, and its last step.

    Attributes:
        parents: names of elements, outermost first.
        last: an element's name, ``@attribute``, or one of the tests that stand for content.
        is_xml: whether its text is XML already.
    """

    parents: tuple[str, ...]
    last: str
    is_xml: bool = False


@dataclass(frozen=True, slots=True)
class XmlSpec:
    """How rows become XML; compiled text carries it as text.

    Attributes:
        root: name of what stands around everything, or None.
        nulls: whether XSINIL is given.
        row: a row's element; empty for none.
        columns: where each column goes.
    """

    root: str | None
    nulls: bool
    row: str
    columns: tuple[XmlColumn, ...]

    def text(self) -> str:
        """The spec, as :func:`spec_of` reads it."""
        columns = [(column.parents, column.last, column.is_xml) for column in self.columns]
        return json.dumps([self.root, self.nulls, self.row, columns])


@lru_cache(maxsize=_CACHED)
def spec_of(text: str) -> XmlSpec:
    """The spec that compiled text carries."""
    root, nulls, row, columns = json.loads(text)
    placed = tuple(XmlColumn(tuple(parents), last, is_xml) for parents, last, is_xml in columns)
    return XmlSpec(root, nulls, row, placed)


def encoded_name(name: str) -> str:
    """A name as XML allows it: other characters become ``_x0020_``."""
    out = []
    for position, character in enumerate(name):
        pattern = _NAME_REST if position else _NAME_START
        out.append(character if pattern.match(character) else f"_x{ord(character):04X}_")
    return "".join(out)


def text_escaped(text: str) -> str:
    """Content of an element."""
    text = text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    return text.replace("\r", "&#x0D;")


def attribute_escaped(text: str) -> str:
    """Content of an attribute."""
    text = text_escaped(text).replace('"', "&quot;")
    return text.replace("\t", "&#x09;").replace("\n", "&#x0A;")


class ForXml:
    """The aggregate: one row after another, then the whole text."""

    def __init__(self) -> None:
        self.parts: list[str] = []
        self.spec: XmlSpec | None = None

    def step(self, text: str, *values: Any) -> None:
        """A row."""
        self.spec = self.spec or spec_of(text)
        writer = _RowWriter(self.spec, first=not self.parts)
        self.parts.append(writer.written(values))

    def inverse(self, *_: Any) -> None:
        """Not used: never a window."""

    def value(self) -> Any:
        """The text now."""
        return self.final()

    def final(self) -> Any:
        """The whole text; NULL without rows."""
        if self.spec is None:
            return None
        inner = "".join(self.parts)
        root = self.spec.root
        if root is None:
            return inner
        namespace = _XSI if self.spec.nulls else ""
        return f"<{root}{namespace}>{inner}</{root}>"


class _RowWriter:
    """One row: open elements are kept while the columns after them share their path."""

    def __init__(self, spec: XmlSpec, *, first: bool) -> None:
        self.spec = spec
        self.first = first
        self.attributes: list[str] = []
        """Of the element that is open and has no content yet: texts of the row's element."""
        self.content: list[str] = []
        self.open: list[str] = []
        self.pending = ""
        """Start of an element whose attributes may still come."""
        self.atomic = False

    def written(self, values: tuple[Any, ...]) -> str:
        """The row as XML."""
        for column, value in zip(self.spec.columns, values, strict=True):
            if value is None:
                if self.spec.nulls and not column.last.startswith("@"):
                    self._nothing(column)
                continue
            self._column(column, value)
        self._close(0)
        row = self.spec.row
        inner = "".join(self.content)
        if not row:
            if not self.first and self.spec.columns and self.spec.columns[0].last == "data()":
                return f" {inner}"
            return inner
        namespace = _XSI if self.spec.nulls and self.spec.root is None else ""
        start = f"<{row}{namespace}{''.join(self.attributes)}"
        return f"{start}>{inner}</{row}>" if inner else f"{start}/>"

    def _nothing(self, column: XmlColumn) -> None:
        """A NULL under XSINIL."""
        if column.last in _INLINE:
            return
        self._enter(column.parents)
        self._flush()
        self.content.append(f'<{column.last} xsi:nil="true"/>')

    def _column(self, column: XmlColumn, value: str) -> None:
        self._enter(column.parents)
        last = column.last
        if last.startswith("@"):
            text = f' {last[1:]}="{attribute_escaped(value)}"'
            if self.pending:
                self.pending += text
            else:
                self.attributes.append(text)
            return
        self._flush()
        text = value if column.is_xml else text_escaped(value)
        if last == "comment()":
            self.content.append(f"<!--{value}-->")
        elif last.startswith("processing-instruction("):
            self.content.append(f"<?{last[23:-1]} {value}?>")
        elif last in _INLINE:
            if last == "data()" and self.atomic:
                text = f" {text}"
            self.content.append(text)
        else:
            self.content.append(f"<{last}>{text}</{last}>" if text else f"<{last}/>")
        self.atomic = last == "data()"

    def _enter(self, parents: tuple[str, ...]) -> None:
        """Closes and opens elements so that exactly ``parents`` are open."""
        shared = 0
        while shared < min(len(parents), len(self.open)) and self.open[shared] == parents[shared]:
            shared += 1
        self._close(shared)
        for name in parents[shared:]:
            self._flush()
            self.open.append(name)
            self.pending = f"<{name}"

    def _flush(self) -> None:
        if self.pending:
            self.content.append(f"{self.pending}>")
            self.pending = ""

    def _close(self, keep: int) -> None:
        while len(self.open) > keep:
            name = self.open.pop()
            if self.pending:
                self.content.append(f"{self.pending}/>")
                self.pending = ""
            else:
                self.content.append(f"</{name}>")
            self.atomic = False


AGGREGATES.append(("t_for_xml", ForXml, -1))
