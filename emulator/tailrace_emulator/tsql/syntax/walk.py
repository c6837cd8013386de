"""Going through a syntax tree."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from tailrace_emulator.tsql.syntax.nodes import Node


def walk(tree: Any) -> Iterator[Any]:
    """Every node of a tree of expressions, queries and statements, the outer ones first."""
    if isinstance(tree, tuple):
        for item in tree:
            yield from walk(item)
    elif isinstance(tree, Node):
        yield tree
        for kind in type(tree).__mro__:
            for slot in getattr(kind, "__slots__", ()):
                yield from walk(getattr(tree, slot, None))
