"""JSON paths: ``[append] [lax|strict] $.name."quoted"[0]``.

https://learn.microsoft.com/sql/relational-databases/json/json-path-expressions-sql-server
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

from tailrace_emulator import messages
from tailrace_emulator.messages.errors import SqlError
from tailrace_emulator.tsql.functions.json_text import JsonKind, JsonNode, unescaped

Step = str | int

_MODE: Final = re.compile(r"\s*(?:(append)\s+)?(?:(lax|strict)\s+)?\$", re.IGNORECASE)
_STEP: Final = re.compile(
    r'\s*(?:\.\s*(?:(?P<name>[A-Za-z_$][\w$]*)|(?P<quoted>"(?:[^"\\]|\\.)*"))|\[\s*(?P<index>\d+)\s*\])'
)


@dataclass(frozen=True, slots=True)
class JsonPath:
    """A path, taken apart."""

    steps: tuple[Step, ...]
    strict: bool = False
    append: bool = False


@lru_cache(maxsize=1024)
def parse_path(text: str) -> JsonPath:
    """A path.

    Raises:
        SqlError: 13607 when it is not one.
    """
    match = _MODE.match(text)
    if match is None:
        raise _malformed(text, 0)
    steps: list[Step] = []
    position = match.end()
    while position < len(text.rstrip()):
        step = _STEP.match(text, position)
        if step is None:
            raise _malformed(text, position)
        if step["index"] is not None:
            steps.append(int(step["index"]))
        else:
            steps.append(step["name"] if step["name"] is not None else unescaped(step["quoted"]))
        position = step.end()
    strict = (match[2] or "").lower() == "strict"
    return JsonPath(tuple(steps), strict, match[1] is not None)


def _malformed(text: str, position: int) -> SqlError:
    found = text[position : position + 1] or "."
    return messages.error(13607, found, position)


def find(node: JsonNode, path: JsonPath) -> JsonNode | None:
    """What a path leads to, or None."""
    found: JsonNode | None = node
    for step in path.steps:
        if found is None:
            return None
        if isinstance(step, int):
            is_there = found.kind is JsonKind.ARRAY and step < len(found.items)
            found = found.items[step] if is_there else None
        else:
            found = found.member(step) if found.kind is JsonKind.OBJECT else None
    return found


def missing() -> SqlError:
    """A strict path that leads nowhere."""
    return messages.error(13608)
