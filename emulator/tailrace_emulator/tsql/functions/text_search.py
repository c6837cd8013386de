"""LIKE, CHARINDEX and PATINDEX."""

from __future__ import annotations

import re
import unicodedata
from functools import lru_cache
from typing import TYPE_CHECKING

from tailrace_emulator.tsql.compile.values import Value
from tailrace_emulator.tsql.conversions.families import counts_units
from tailrace_emulator.tsql.functions.registry import builtin
from tailrace_emulator.tsql.functions.sqlite_functions import sqlite_function
from tailrace_emulator.values.collations import (
    LIKE_ACCENTLESS,
    LIKE_SENSITIVE,
    LIKE_UNICODE,
    search_flags,
)
from tailrace_emulator.values.types import BIGINT, INT, MAX
from tailrace_emulator.wire.half_pairs import spread

if TYPE_CHECKING:
    from tailrace_emulator.tsql.compile.compilers import Expressions


def without_accents(text: str) -> str:
    """The text with each letter's base letter; as long as it was."""
    if text.isascii():
        return text
    return "".join(unicodedata.normalize("NFD", character)[0] for character in text)


@lru_cache(maxsize=512)
def like_pattern(pattern: str, escape: str | None, flags: int) -> re.Pattern[str]:
    """A LIKE pattern as a regular expression over the whole text.

    Args:
        pattern: with ``% _ [a-z] [^a-z]``.
        escape: the ESCAPE character, or None.
        flags: of :func:`tailrace_emulator.values.collations.search_flags`, and LIKE_UNICODE.
    """
    blanks = "" if flags & LIKE_UNICODE else r"\ *"
    return re.compile(_translated(pattern, escape) + blanks + r"\Z", _case(flags))


def _case(flags: int) -> re.RegexFlag:
    return re.DOTALL if flags & LIKE_SENSITIVE else re.DOTALL | re.IGNORECASE


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
def _like(text: str | None, pattern: str | None, escape: str | None, flags: int) -> int | None:
    if text is None or pattern is None:
        return None
    if flags & LIKE_ACCENTLESS:
        text, pattern = without_accents(text), without_accents(pattern)
    return int(like_pattern(pattern, escape, flags).match(text) is not None)


@builtin("CHARINDEX", 2, 3)
def charindex(compiler: Expressions, arguments: list[Value]) -> Value:
    """CHARINDEX(needle, text [, start])."""
    needle, text = (compiler.as_text(a) for a in arguments[:2])
    start = compiler.as_int(arguments[2]).sql if len(arguments) > 2 else "1"
    flags = search_flags(text.type.collation)
    result = BIGINT if text.type.length == MAX else INT
    in_units = int(counts_units(text.type))
    given = f"{needle.sql}, {text.sql}, {start}, {flags}, {in_units}"
    return Value(f"t_charindex({given})", result)


@sqlite_function("t_charindex", 5)
def _charindex(needle: str, text: str, start: int, flags: int, in_units: int) -> int:
    if not needle:
        return 0
    if in_units:
        needle, text = spread(needle), spread(text)
    if flags & LIKE_ACCENTLESS:
        needle, text = without_accents(needle), without_accents(text)
    if not flags & LIKE_SENSITIVE:
        needle, text = needle.lower(), text.lower()
    return text.find(needle, max(start, 1) - 1) + 1


@builtin("PATINDEX", 2)
def patindex(compiler: Expressions, arguments: list[Value]) -> Value:
    """PATINDEX(pattern, text)."""
    pattern, text = (compiler.as_text(a) for a in arguments)
    result = BIGINT if text.type.length == MAX else INT
    flags = search_flags(text.type.collation)
    in_units = int(counts_units(text.type))
    return Value(f"t_patindex({pattern.sql}, {text.sql}, {flags}, {in_units})", result)


@lru_cache(maxsize=256)
def _search_pattern(pattern: str, flags: int) -> tuple[re.Pattern[str], bool]:
    """The expression to search for, and whether it is anchored at the beginning."""
    anchored = not pattern.startswith("%")
    body = pattern.removeprefix("%")
    open_end = body.endswith("%")
    expression = _translated(body.removesuffix("%") if open_end else body, None)
    return re.compile(expression + ("" if open_end else r"\Z"), _case(flags)), anchored


@sqlite_function("t_patindex", 4)
def _patindex(pattern: str, text: str, flags: int, in_units: int) -> int:
    if in_units:
        pattern, text = spread(pattern), spread(text)
    if flags & LIKE_ACCENTLESS:
        pattern, text = without_accents(pattern), without_accents(text)
    expression, anchored = _search_pattern(pattern, flags)
    match = expression.match(text) if anchored else expression.search(text)
    return match.start() + 1 if match else 0
