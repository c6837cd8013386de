"""Text of the source on a terminal: names and messages may hold what a terminal obeys."""

from __future__ import annotations

import unicodedata
from collections.abc import MutableMapping
from typing import Any, Final

_ACTS: Final = frozenset({"Cc", "Cs", "Zl", "Zp"})
_TURNS: Final = frozenset("\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069")
"""Characters that change the direction of the text after them."""
_LINES: Final = frozenset({"exception", "stack"})


def shown(text: str, *, lines: bool = False) -> str:
    """A text in which nothing moves the cursor, sets a title, ends the line or turns its direction.

    SQL Server takes nearly every character in a name; anyone who may create a table chooses it.
    Control characters, halves of surrogate pairs, line separators and marks of direction become
    their escapes, as Python writes them.

    Args:
        text: what is to be shown.
        lines: whether line ends and tabs stay, as in a message of several lines.
    """
    if text.isprintable():  # also true of most names of other scripts
        return text
    return "".join(
        _escaped(char) if _acts(char) and not (lines and char in "\n\t") else char for char in text
    )


def shown_json(text: str) -> str:
    """JSON in which nothing acts on a terminal, and which says the same: see :func:`shown`."""
    if text.isprintable():
        return text
    return "".join(f"\\u{ord(char):04x}" if _acts(char) and char != "\n" else char for char in text)


def _acts(char: str) -> bool:
    return unicodedata.category(char) in _ACTS or char in _TURNS


def _escaped(char: str) -> str:
    return char.encode("unicode_escape").decode("ascii")


def escape_fields(_: Any, __: str, event: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
    """A processor of structlog: no value of an event can forge a line of the log."""
    for name, value in event.items():
        if isinstance(value, str):
            event[name] = shown(value, lines=name in _LINES)
    return event
