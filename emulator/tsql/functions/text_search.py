"""LIKE, CHARINDEX and PATINDEX."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import TYPE_CHECKING

from emulator.collations import is_case_sensitive
from emulator.tsql.functions.registry import builtin, sqlite_function
from emulator.tsql.values import Value
from emulator.types import BIGINT, INT, MAX

if TYPE_CHECKING:
    from emulator.tsql.expressions import ExpressionCompiler


@lru_cache(maxsize=512)
def like_pattern(pattern: str, escape: str | None, sensitive: int) -> re.Pattern[str]:
    """A LIKE pattern as a regular expression over the whole text.

    Args:
        pattern: with ``% _ [a-z] [^a-z]``.
        escape: the ESCAPE character, or None.
        sensitive: whether case counts.
    """
    flags = re.DOTALL if sensitive else re.DOTALL | re.IGNORECASE
    return re.compile(_translated(pattern, escape) + r"\ *\Z", flags)


def _translated(pattern: str, escape: str | None) -> str:
    """The body of the regular expression."""
    parts: list[str] = []
    position = 0
    while position < len(pattern):
        character = pattern[position]
        if escape and character == escape and position + 1 < len(pattern):
            parts.append(re.escape(pattern[position + 1]))
            position += 2
            continue
        if character == "%":
            parts.append(".*")
        elif character == "_":
            parts.append(".")
        elif character == "[" and (end := pattern.find("]", position + 2)) > 0:
            parts.append(_character_class(pattern[position + 1 : end]))
            position = end
        else:
            parts.append(re.escape(character))
        position += 1
    return "".join(parts)


def _character_class(inside: str) -> str:
    """``[a-z]``."""
    negated = inside.startswith("^")
    body = inside[1:] if negated else inside
    escaped = re.sub(r"([\\\[\]^&|~])", r"\\\1", body)
    return f"[{'^' if negated else ''}{escaped}]" if escaped else ""


@sqlite_function("t_like", 4, takes_null=True)
def _like(text: str | None, pattern: str | None, escape: str | None, sensitive: int) -> int | None:
    if text is None or pattern is None:
        return None
    return int(like_pattern(pattern, escape, sensitive).match(text) is not None)


@builtin("CHARINDEX", 2, 3)
def charindex(compiler: ExpressionCompiler, arguments: list[Value]) -> Value:
    """CHARINDEX(needle, text [, start])."""
    needle, text = (compiler.as_text(a) for a in arguments[:2])
    start = compiler.as_int(arguments[2]).sql if len(arguments) > 2 else "1"
    sensitive = int(is_case_sensitive(text.type.collation))
    result = BIGINT if text.type.length == MAX else INT
    return Value(f"t_charindex({needle.sql}, {text.sql}, {start}, {sensitive})", result)


@sqlite_function("t_charindex", 4)
def _charindex(needle: str, text: str, start: int, sensitive: int) -> int:
    if not needle:
        return 0
    if not sensitive:
        needle, text = needle.lower(), text.lower()
    return text.find(needle, max(start, 1) - 1) + 1


@builtin("PATINDEX", 2)
def patindex(compiler: ExpressionCompiler, arguments: list[Value]) -> Value:
    """PATINDEX(pattern, text)."""
    pattern, text = (compiler.as_text(a) for a in arguments)
    result = BIGINT if text.type.length == MAX else INT
    return Value(f"t_patindex({pattern.sql}, {text.sql})", result)


@lru_cache(maxsize=256)
def _search_pattern(pattern: str) -> tuple[re.Pattern[str], bool]:
    """The expression to search for, and whether it is anchored at the beginning."""
    anchored = not pattern.startswith("%")
    body = pattern.removeprefix("%")
    open_end = body.endswith("%")
    expression = _translated(body.removesuffix("%") if open_end else body, None)
    return re.compile(expression + ("" if open_end else r"\Z"), re.DOTALL | re.IGNORECASE), anchored


@sqlite_function("t_patindex", 2)
def _patindex(pattern: str, text: str) -> int:
    expression, anchored = _search_pattern(pattern)
    match = expression.match(text) if anchored else expression.search(text)
    return match.start() + 1 if match else 0
