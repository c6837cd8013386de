"""Texts with places for values: FORMATMESSAGE, and what RAISERROR says.

https://learn.microsoft.com/sql/t-sql/functions/formatmessage-transact-sql
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from tailrace_emulator import messages
from tailrace_emulator.messages.errors import SqlError, not_supported
from tailrace_emulator.tsql.compile.values import Value, converted
from tailrace_emulator.tsql.conversions.families import Family, family
from tailrace_emulator.tsql.functions.registry import builtin
from tailrace_emulator.tsql.functions.sqlite_functions import sqlite_function
from tailrace_emulator.values.types import BIGINT, SqlType, StorageValue, nvarchar

if TYPE_CHECKING:
    from tailrace_emulator.tsql.compile.compilers import Expressions

LENGTH_MAX: Final = 2047
"""Characters of a message; a longer one ends in three dots."""
FIRST_MESSAGE: Final = 13_000
LAST_SYSTEM_MESSAGE: Final = 49_999
_VALUES_MAX: Final = 20
_INTEGERS: Final = frozenset({"bit", "tinyint", "smallint", "int", "bigint"})
_SPECIFICATION: Final = re.compile(r"%([-+0 #]*)(\*|\d+)?(?:\.(\*|\d+))?(h|l|I64)?([diosuxX%])")


def format_message(template: str, arguments: Sequence[StorageValue]) -> str:
    """A text with values put in: %s, %d, %i, %u, %x, %X, %o with width and flags.

    Args:
        arguments: integers and texts; one that is NULL or missing shows as ``(null)``.

    Raises:
        SqlError: 2786 when an argument's type does not fit its specification.
    """
    taken = 0

    def take() -> StorageValue:
        nonlocal taken
        taken += 1
        return arguments[taken - 1] if taken <= len(arguments) else None

    def substitute(match: re.Match[str]) -> str:
        flags, width, precision, size, kind = match.groups()
        if kind == "%":
            return "%"
        if width == "*":
            width = str(take() or "0")
        if precision == "*":
            precision = str(take() or "0")
        value = take()
        if value is None:
            return "(null)"
        if kind == "s":
            if not isinstance(value, str):
                raise _mismatch(taken)
            text = value if precision is None else value[: int(precision)]
        elif isinstance(value, int):
            text = _number(value, kind, flags, 64 if size == "I64" else 32)
        else:
            raise _mismatch(taken)
        return _padded(text, flags, int(width or 0), is_number=kind != "s")

    text = _SPECIFICATION.sub(substitute, template)
    return text if len(text) <= LENGTH_MAX else text[: LENGTH_MAX - 3] + "..."


def _padded(text: str, flags: str, width: int, *, is_number: bool) -> str:
    """A value in its width; zeros stand after the sign."""
    if "-" in flags:
        return text.ljust(width)
    return text.zfill(width) if "0" in flags and is_number else text.rjust(width)


def _number(value: int, kind: str, flags: str, bits: int) -> str:
    """An integer under a conversion; unsigned, a negative one wraps around."""
    if kind in "di":
        if value < 0:
            return str(value)
        return f"+{value}" if "+" in flags else f" {value}" if " " in flags else str(value)
    unsigned = value & ((1 << bits) - 1) if value < 0 else value
    if kind == "u":
        return str(unsigned)
    text = f"{unsigned:{kind}}"
    prefix = {"x": "0x", "X": "0X", "o": "0"}[kind] if "#" in flags and unsigned else ""
    return prefix + text


def _mismatch(position: int) -> SqlError:
    """2786."""
    return messages.error(2786, position)


def check_substitution(sql_type: SqlType, position: int) -> None:
    """Check that values of a type may be put into a message.

    Args:
        position: of the argument, from 1, the text being the first of FORMATMESSAGE.

    Raises:
        SqlError: 2748; 50900 for binary ones.
    """
    if sql_type.name in _INTEGERS or family(sql_type) is Family.TEXT:
        return
    if family(sql_type) is Family.BINARY:
        raise not_supported("binary values in messages")
    raise messages.error(2748, sql_type.name, position)


def _is_whole(sql_type: SqlType) -> bool:
    return sql_type.is_decimal and sql_type.scale == 0


@builtin("FORMATMESSAGE", 1, 1 + _VALUES_MAX)
def _format_message(_: Expressions, arguments: list[Value]) -> Value:
    """FORMATMESSAGE(text or number of a message, values...).

    A whole number that is too long for int is a decimal, and is put in as bigint.
    """
    arguments = [
        converted(value, BIGINT) if value.literal and _is_whole(value.type) else value
        for value in arguments
    ]
    for position, value in enumerate(arguments, 1):
        if not value.is_null:
            check_substitution(value.type, position)
    texts = ", ".join(value.sql for value in arguments)
    return Value(f"t_format_message({texts})", nvarchar(LENGTH_MAX))


@sqlite_function("t_format_message", takes_null=True)
def _formatted(template: StorageValue, *arguments: StorageValue) -> str | None:
    if isinstance(template, int):
        if not FIRST_MESSAGE < template <= LAST_SYSTEM_MESSAGE:
            return None  # nothing adds users' messages
        message = messages.CATALOGUE.get(template)
        if message is None:
            raise not_supported(f"FORMATMESSAGE with system message {template}")
        return format_message(message.text, arguments)
    return format_message(str(template), arguments) if template is not None else None
