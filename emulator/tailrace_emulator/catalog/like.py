"""LIKE patterns as the metadata procedures take them: %, _ and [set].

A backslash is itself, as in LIKE. A literal % or _ is written [%] or [_], as the ODBC driver does
with what ODBC escapes.
"""

from __future__ import annotations

import re
from functools import lru_cache


@lru_cache(maxsize=512)
def _compiled(pattern: str) -> re.Pattern[str]:
    parts: list[str] = []
    position = 0
    while position < len(pattern):
        character = pattern[position]
        position += 1
        if character == "%":
            parts.append(".*")
        elif character == "_":
            parts.append(".")
        elif character == "[" and (end := pattern.find("]", position + 1)) > 0:
            inside = pattern[position:end]
            negated = "^" if inside.startswith("^") else ""
            chosen = inside[len(negated) :].replace("\\", "\\\\").replace("[", "\\[")
            parts.append(f"[{negated}{chosen}]")
            position = end + 1
        else:
            parts.append(re.escape(character))
    return re.compile("".join(parts), re.IGNORECASE | re.DOTALL)


def matches(name: str, pattern: str) -> bool:
    """Whether a name matches a pattern, case-insensitively."""
    return _compiled(pattern).fullmatch(name) is not None
