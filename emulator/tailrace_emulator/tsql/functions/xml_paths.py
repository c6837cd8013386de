"""XPath as far as simple XQuery needs it: child and descendant steps, attributes, predicates.

https://learn.microsoft.com/sql/relational-databases/xml/xquery-language-reference-sql-server
"""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

from tailrace_emulator import messages
from tailrace_emulator.messages.errors import not_supported

_TOKEN: Final = re.compile(
    r"\s*(//|/|\.\.|\.|@[\w\-.]+|text\(\)|node\(\)|\*|[A-Za-z_][\w\-.]*(?!\()|\[[^\]]*\])"
)
_PREDICATE: Final = re.compile(
    r"\[\s*(?:(?P<position>\d+)|(?P<name>@?[\w\-.]+|text\(\)|\.)\s*=\s*(?P<value>\"[^\"]*\"|'[^']*'|\d+))\s*\]"
)


@dataclass(frozen=True, slots=True)
class Step:
    """One step of a path, with its predicates as written."""

    test: str
    descendant: bool
    predicates: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class XmlPath:
    """A path; ``position`` is of ``(path)[n]``, 0 without it."""

    steps: tuple[Step, ...]
    absolute: bool
    position: int = 0

    @property
    def is_single(self) -> bool:
        """Whether it cannot lead to two nodes, as SQL Server judges it."""
        if self.position:
            return True
        return all(
            step.test.startswith(("@", "."))
            or any(re.fullmatch(r"\[\s*\d+\s*\]", p) for p in step.predicates)
            for step in self.steps
        )


@lru_cache(maxsize=512)
def parse_path(text: str) -> XmlPath:
    """A path.

    Raises:
        SqlError: 50900 for more of XQuery than that.
    """
    inner, position = text.strip(), 0
    wrapped = re.fullmatch(r"\((.*)\)\s*\[\s*(\d+)\s*\]", inner, re.DOTALL)
    if wrapped is not None:
        inner, position = wrapped[1].strip(), int(wrapped[2])
    steps: list[Step] = []
    place, descendant, absolute = 0, False, inner.startswith("/")
    while place < len(inner):
        match = _TOKEN.match(inner, place)
        if match is None:
            raise not_supported(f"the XQuery expression {text!r}")
        piece, place = match[1], match.end()
        if piece == "/":
            descendant = False
        elif piece == "//":
            descendant = True
        elif piece.startswith("["):
            if not steps or _PREDICATE.fullmatch(piece) is None:
                raise not_supported(f"the XQuery predicate {piece}")
            last = steps[-1]
            steps[-1] = Step(last.test, last.descendant, (*last.predicates, piece))
        else:
            steps.append(Step(piece, descendant))
            descendant = False
    return XmlPath(tuple(steps), absolute, position)


@dataclass(slots=True)
class Node:
    """An element, an attribute or a text, and the element around it."""

    element: ET.Element | None
    text: str = ""
    parent: Node | None = None

    def string(self) -> str:
        """Its string value."""
        return self.text if self.element is None else "".join(self.element.itertext())

    def children(self) -> list[Node]:
        """Texts and elements inside, in document order."""
        if self.element is None:
            return []
        found = [Node(None, self.element.text, self)] if self.element.text else []
        for child in self.element:
            found.append(Node(child, "", self))
            if child.tail:
                found.append(Node(None, child.tail, self))
        return found

    def written(self) -> str:
        """Its XML."""
        if self.element is None:
            return self.text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
        tail, self.element.tail = self.element.tail, None
        text = ET.tostring(self.element, encoding="unicode", short_empty_elements=True)
        self.element.tail = tail
        return text.replace(" />", "/>")


@lru_cache(maxsize=64)
def document(text: str) -> Node:
    """The document node of an XML text, which may be a fragment.

    Raises:
        SqlError: 9400 for a text that an older release stored as it came, and is not XML.
    """
    body = re.sub(r"^\s*<\?xml.*?\?>", "", text, count=1, flags=re.DOTALL)
    if "<!DOCTYPE" in body or "<!ENTITY" in body:
        raise not_supported("XML with a document type definition")
    try:
        return Node(ET.fromstring(f"<r>{body}</r>"))  # noqa: S314 - no entities: refused above
    except ET.ParseError as error:
        line, column = error.position
        raise messages.error(9400, line, column) from error


def evaluate(context: Node, path: XmlPath) -> list[Node]:
    """The nodes that a path leads to, in document order.

    Args:
        context: where a relative path begins.
    """
    start = context
    while path.absolute and start.parent is not None:
        start = start.parent
    nodes = [start]
    for step in path.steps:
        nodes = [found for node in nodes for found in _step(node, step)]
    if path.position:
        return nodes[path.position - 1 : path.position]
    return nodes


def _step(node: Node, step: Step) -> list[Node]:
    origins = _descendants(node) if step.descendant else [node]
    found: list[Node] = []
    for origin in origins:
        chosen = [child for child in _axis(origin, step.test) if child is not None]
        for predicate in step.predicates:
            chosen = _filtered(chosen, predicate)
        found += chosen
    return found


def _descendants(node: Node) -> list[Node]:
    """A node and everything inside."""
    found = [node]
    for child in node.children():
        if child.element is not None:
            found += _descendants(child)
    return found


def _axis(node: Node, test: str) -> list[Node | None]:
    if test == ".":
        return [node]
    if test == "..":
        return [node.parent]
    if test.startswith("@"):
        value = None if node.element is None else node.element.get(test[1:])
        return [] if value is None else [Node(None, value, node)]
    children = node.children()
    if test == "node()":
        return list(children)
    if test == "text()":
        return [child for child in children if child.element is None]
    return [
        child
        for child in children
        if child.element is not None and (test == "*" or child.element.tag == test)
    ]


def _filtered(nodes: list[Node], predicate: str) -> list[Node]:
    match = _PREDICATE.fullmatch(predicate)
    if match is None:
        return []
    if match["position"]:
        place = int(match["position"])
        return nodes[place - 1 : place]
    wanted = match["value"]
    is_number = wanted.isdigit()
    wanted = wanted if is_number else wanted[1:-1]
    return [
        node
        for node in nodes
        if any(
            found is not None and _same(found.string(), wanted, is_number=is_number)
            for found in _axis(node, match["name"])
        )
    ]


def _same(value: str, wanted: str, *, is_number: bool) -> bool:
    if not is_number:
        return value == wanted
    try:
        return float(value) == float(wanted)
    except ValueError:
        return False
