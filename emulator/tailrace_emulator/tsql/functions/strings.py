"""String functions."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from tailrace_emulator import messages
from tailrace_emulator.messages.errors import SqlError
from tailrace_emulator.tsql.compile.values import Value, converted
from tailrace_emulator.tsql.conversions.families import Family, counts_units, family, is_national
from tailrace_emulator.tsql.functions.registry import builtin
from tailrace_emulator.tsql.functions.sqlite_functions import sqlite_function
from tailrace_emulator.tsql.functions.text_bounds import cut_text, fitting_text
from tailrace_emulator.tsql.functions.text_search import without_accents
from tailrace_emulator.values.collations import (
    LIKE_ACCENTLESS,
    LIKE_SENSITIVE,
    counts_characters,
    page_of,
    search_flags,
)
from tailrace_emulator.values.types import (
    BIGINT,
    DEFAULT_COLLATION,
    INT,
    MAX,
    SqlType,
    nvarchar,
    varbinary,
    varchar,
)
from tailrace_emulator.wire.code_pages import UTF8
from tailrace_emulator.wire.half_pairs import joined, spread, units

if TYPE_CHECKING:
    from tailrace_emulator.tsql.compile.compilers import Expressions


def variable_text(source: SqlType, length: int) -> SqlType:
    """(n)varchar(length) of the same kind and collation as ``source``."""
    national = is_national(source)
    limit = 4000 if national else 8000
    if length != MAX:
        length = max(1, min(length, limit))
    return SqlType(
        "nvarchar" if national else "varchar",
        length=length,
        collation=source.collation or DEFAULT_COLLATION,
    )


def widest(source: SqlType) -> int:
    """The most units of a type's length that a character takes."""
    if is_national(source):
        return 2 if counts_characters(source.collation) else 1
    page = page_of(source.collation)
    return 1 if not page.is_multibyte else 4 if page.number == UTF8 else 2


def longest_text(*sources: SqlType) -> SqlType:
    """The longest (n)varchar of the same kind; (max) when one of them is."""
    national = any(is_national(source) for source in sources)
    is_max = any(source.length == MAX for source in sources if source.is_character)
    length = MAX if is_max else 4000 if national else 8000
    base = nvarchar(length) if national else varchar(length)
    return replace(base, collation=sources[0].collation or base.collation)


def constant_int(value: Value) -> int | None:
    """An integer known at compile time."""
    known = value.constant.value if value.constant else None
    return known if isinstance(known, int) else None


@builtin("LEN", 1)
def length(compiler: Expressions, arguments: list[Value]) -> Value:
    """Characters without trailing blanks."""
    value = arguments[0]
    result = BIGINT if value.type.length == MAX else INT
    if family(value.type) is Family.BINARY:
        return Value(f"length({value.sql})", result, value.nullable)
    value = compiler.as_text(value)
    characters = int(counts_characters(value.type.collation))
    return Value(f"t_len({value.sql}, {characters})", result, value.nullable)


@sqlite_function("t_len", 2)
def _len(text: str, characters: int) -> int:
    text = text.rstrip(" ")
    return len(text) if characters else units(text)


def _case(name: str, function: str) -> None:
    """Registers UPPER and LOWER."""

    @builtin(name, 1)
    def build(compiler: Expressions, arguments: list[Value]) -> Value:
        value = compiler.as_text(arguments[0])
        return Value(
            f"t_{function}({value.sql})",
            variable_text(value.type, value.type.length),
            value.nullable,
        )


_case("UPPER", "upper")
_case("LOWER", "lower")


@sqlite_function("t_upper", 1)
def _upper(text: str) -> str:
    changed = text.upper()
    return (
        changed
        if len(changed) == len(text)
        else "".join(c.upper() if len(c.upper()) == 1 else c for c in text)
    )


@sqlite_function("t_lower", 1)
def _lower(text: str) -> str:
    changed = text.lower()
    return (
        changed
        if len(changed) == len(text)
        else "".join(c.lower() if len(c.lower()) == 1 else c for c in text)
    )


def _trim(name: str, function: str) -> None:
    """Registers LTRIM, RTRIM and TRIM."""

    @builtin(name, 1, 2)
    def build(compiler: Expressions, arguments: list[Value]) -> Value:
        value = compiler.as_text(arguments[0])
        characters = compiler.as_text(arguments[1]) if len(arguments) > 1 else None
        removed = "' '" if characters is None else characters.sql
        return Value(
            f"{function}({value.sql}, {removed})",
            variable_text(value.type, value.type.length),
            value.nullable or (characters is not None and characters.nullable),
        )


_trim("LTRIM", "ltrim")
_trim("RTRIM", "rtrim")
_trim("TRIM", "trim")


def _end(name: str) -> None:
    """Registers LEFT and RIGHT."""

    @builtin(name, 2)
    def build(compiler: Expressions, arguments: list[Value]) -> Value:
        value = compiler.as_text(arguments[0])
        count = compiler.as_int(arguments[1])
        known = constant_int(count)
        size = value.type.length
        if known is not None and known >= 0 and size != MAX:
            size = min(known * widest(value.type), size)
        return Value(
            f"t_{name.lower()}({value.sql}, {count.sql}, {int(counts_units(value.type))})",
            variable_text(value.type, size),
            value.nullable or count.nullable,
        )


_end("LEFT")
_end("RIGHT")


def _invalid_length(function: str) -> SqlError:
    """536 or 537."""
    if function == "LEFT":
        return messages.error(537)
    return messages.error(536, function)


@sqlite_function("t_left", 3)
def _left(text: str, count: int, in_units: int) -> str:
    if count < 0:
        raise _invalid_length("LEFT")
    return joined(spread(text)[:count]) if in_units else text[:count]


@sqlite_function("t_right", 3)
def _right(text: str, count: int, in_units: int) -> str:
    if count < 0:
        raise _invalid_length("RIGHT")
    if not count:
        return ""
    return joined(spread(text)[-count:]) if in_units else text[-count:]


_SUBSTRING_BYTES: Final = {"text": 8000, "ntext": 4000, "image": 8000}
"""Of these SUBSTRING gives varchar, nvarchar and varbinary of those lengths, or shorter."""


@builtin("SUBSTRING", 2, 3)
def substring(compiler: Expressions, arguments: list[Value]) -> Value:
    """SUBSTRING(text or binary, start, length)."""
    value = arguments[0]
    start = compiler.as_int(arguments[1])
    count = compiler.as_int(arguments[2]) if len(arguments) > 2 else None
    known = constant_int(count) if count else None
    if family(value.type) is Family.BINARY:
        size = _SUBSTRING_BYTES.get(value.type.name) or value.type.length or 8
        if known is not None and known >= 0 and size != MAX:
            size = max(1, min(known, size))
        result = varbinary(size)
    else:
        value = compiler.as_text(value)
        size = _SUBSTRING_BYTES.get(value.type.name) or value.type.length
        if known is not None and known >= 0 and size != MAX:
            size = min(known * widest(value.type), size)
        result = variable_text(value.type, size)
    last = count.sql if count else str(2**31 - 1)
    in_units = 0 if family(value.type) is Family.BINARY else int(counts_units(value.type))
    return Value(f"t_substring({value.sql}, {start.sql}, {last}, {in_units})", result)


@sqlite_function("t_substring", 4)
def _substring(value: Any, start: int, count: int, in_units: int) -> Any:
    if count < 0:
        raise _invalid_length("LEFT")
    first = start - 1
    end = first + count
    part = slice(max(first, 0), max(end, 0))
    return joined(spread(value)[part]) if in_units else value[part]


@builtin("REPLACE", 3)
def replace_text(compiler: Expressions, arguments: list[Value]) -> Value:
    """REPLACE, case-insensitive as the collation is."""
    values = [compiler.as_text(a) for a in arguments]
    texts = ", ".join(v.sql for v in values)
    flags = search_flags(values[0].type.collation)
    result = longest_text(*(v.type for v in values))
    text = f"t_replace({texts}, {flags})"
    return cut_text(text, result, MAX, nullable=any(v.nullable for v in values))


@sqlite_function("t_replace", 4)
def _replace(text: str, old: str, new: str, flags: int) -> str:
    if not old:
        return text
    folded, needle = text, old
    if flags & LIKE_ACCENTLESS:
        folded, needle = without_accents(text), without_accents(old)
    if not flags & LIKE_SENSITIVE:
        folded, needle = folded.lower(), needle.lower()
    if folded == text and needle == old:
        return text.replace(old, new)
    if len(folded) != len(text):
        return text.replace(old, new)
    pieces, position = [], 0
    while (found := folded.find(needle, position)) >= 0:
        pieces.append(text[position:found])
        position = found + len(needle)
    return new.join([*pieces, text[position:]])


@builtin("REPLICATE", 2)
def replicate(compiler: Expressions, arguments: list[Value]) -> Value:
    """REPLICATE(text, count)."""
    value, count = compiler.as_text(arguments[0]), compiler.as_int(arguments[1])
    result = longest_text(value.type)
    limit = 0 if result.length == MAX else result.length
    return Value(f"t_replicate({value.sql}, {count.sql}, {limit})", result)


@sqlite_function("t_replicate", 3)
def _replicate(text: str, count: int, limit: int) -> str | None:
    if count < 0:
        return None
    repeated = text * min(count, limit + 1 if limit else count)
    return repeated[:limit] if limit else repeated


@builtin("SPACE", 1)
def space(compiler: Expressions, arguments: list[Value]) -> Value:
    """SPACE(count)."""
    count = compiler.as_int(arguments[0])
    return Value(f"t_replicate(' ', {count.sql}, 8000)", varchar(8000))


@builtin("REVERSE", 1)
def reverse(compiler: Expressions, arguments: list[Value]) -> Value:
    """REVERSE(text)."""
    value = compiler.as_text(arguments[0])
    text = f"t_reverse({value.sql}, {int(counts_units(value.type))})"
    return Value(text, variable_text(value.type, value.type.length))


@sqlite_function("t_reverse", 2)
def _reverse(text: str, in_units: int) -> str:
    return joined(spread(text)[::-1]) if in_units else text[::-1]


@builtin("STUFF", 4)
def stuff(compiler: Expressions, arguments: list[Value]) -> Value:
    """STUFF(text, start, length, replacement)."""
    value, new = compiler.as_text(arguments[0]), compiler.as_text(arguments[3])
    start, count = compiler.as_int(arguments[1]), compiler.as_int(arguments[2])
    given = f"{value.sql}, {start.sql}, {count.sql}, coalesce({new.sql}, '')"
    text = f"t_stuff({given}, {int(counts_units(value.type))})"
    return fitting_text(text, longest_text(value.type, new.type), 8152)


@sqlite_function("t_stuff", 5)
def _stuff(text: str, start: int, count: int, new: str, in_units: int) -> str | None:
    if in_units:
        text = spread(text)
    if start < 1 or count < 0 or start > len(text):
        return None
    changed = text[: start - 1] + new + text[start - 1 + count :]
    return joined(changed) if in_units else changed


@builtin("CONCAT", 2, 254)
def concat(compiler: Expressions, arguments: list[Value]) -> Value:
    """CONCAT: NULL counts as an empty string."""
    values = [_concat_text(compiler, a) for a in arguments]
    text = " || ".join(f"coalesce({v.sql}, '')" for v in values)
    return cut_text(f"({text})", *_joined_type(values, 0), nullable=False)


@builtin("CONCAT_WS", 3, 254)
def concat_with_separator(compiler: Expressions, arguments: list[Value]) -> Value:
    """CONCAT_WS: NULL arguments are left out."""
    values = [_concat_text(compiler, a) for a in arguments]
    text = ", ".join(v.sql for v in values)
    separators = (len(values) - 2) * max(values[0].type.length, 0)
    joined = _joined_type(values[1:], separators)
    return cut_text(f"t_concat_ws({text})", *joined, nullable=False)


def _concat_text(compiler: Expressions, value: Value) -> Value:
    """An argument of CONCAT as text; NULL is varchar(1)."""
    if value.is_null:
        return replace(value, type=varchar(1))
    if family(value.type) is Family.INTEGER:
        return converted(value, varchar(12 if value.type.name != "bigint" else 20))
    return compiler.as_text(value)


def _joined_type(values: list[Value], extra: int) -> tuple[SqlType, int]:
    """Type of several texts joined, and how long they may be together."""
    national = any(is_national(v.type) for v in values)
    if any(v.type.length == MAX for v in values):
        return (nvarchar(MAX) if national else varchar(MAX)), MAX
    total = sum(v.type.length for v in values) + extra
    return (nvarchar(min(total, 4000)) if national else varchar(min(total, 8000))), total


@sqlite_function("t_concat_ws", takes_null=True)
def _concat_ws(separator: str | None, *texts: str | None) -> str:
    return (separator or "").join(text for text in texts if text is not None)
