"""Masking functions of dynamic data masking: their texts, and what they show of a value.

https://learn.microsoft.com/sql/relational-databases/security/dynamic-data-masking

Numbers and texts of the errors are as others observed them on SQL Server (inferred). Inferred, too:
``partial`` shows its padding alone where a value is no longer than prefix and suffix. ``random``
shows a whole number.
"""

from __future__ import annotations

import random
import re
from dataclasses import dataclass
from typing import Final

from tailrace_emulator import messages
from tailrace_emulator.messages.errors import not_supported
from tailrace_emulator.tsql.functions.sqlite_functions import sqlite_function
from tailrace_emulator.values.types import SqlType

DEFAULT: Final = "default()"
EMAIL: Final = "email"
RANDOM: Final = "random"
PARTIAL: Final = "partial"

TEXTS: Final = frozenset({"char", "varchar", "nchar", "nvarchar", "text", "ntext"})
NUMBERS: Final = frozenset(
    {
        *("bit", "tinyint", "smallint", "int", "bigint", "decimal", "numeric"),
        *("money", "smallmoney", "float", "real"),
    }
)
TIMES: Final = frozenset(
    {"date", "time", "datetime", "datetime2", "datetimeoffset", "smalldatetime"}
)
BINARIES: Final = frozenset({"binary", "varbinary", "image"})

_CALL: Final = re.compile(r"(?P<name>\w+)\((?P<arguments>.*)\)\s*", re.DOTALL)
_RANDOM: Final = re.compile(r"\s*(-?\d+)\s*,\s*(-?\d+)\s*")
_PARTIAL: Final = re.compile(r'\s*(\d+)\s*,\s*"([^"]*)"\s*,\s*(\d+)\s*', re.DOTALL)


@dataclass(frozen=True, slots=True)
class Mask:
    """A masking function.

    Attributes:
        numbers: bounds of ``random``, or prefix and suffix of ``partial``.
        padding: what ``partial`` shows in between.
    """

    name: str
    numbers: tuple[int, int] = (0, 0)
    padding: str = ""

    @property
    def text(self) -> str:
        """The function as sys.masked_columns shows it."""
        first, second = self.numbers
        if self.name == RANDOM:
            return f"random({first}, {second})"
        if self.name == PARTIAL:
            return f'partial({first}, "{self.padding}", {second})'
        return f"{self.name}()"


def read_mask(text: str, column: str, sql_type: SqlType) -> Mask:
    """The masking function of a column's definition.

    Raises:
        SqlError: 16002 no such function, 16003 not for the column's type, 16004 wrong arguments;
            50900 for a type of which the mask is not documented.
    """
    call = _CALL.fullmatch(text)
    name = call["name"].lower() if call is not None else ""
    if call is None or name not in {"default", EMAIL, RANDOM, PARTIAL, "datetime"}:
        raise messages.error(16002, column)
    allowed = {EMAIL: TEXTS, PARTIAL: TEXTS, RANDOM: NUMBERS, "datetime": TIMES}.get(name)
    if allowed is not None and sql_type.name not in allowed:
        raise messages.error(16003, column, name)
    if name == "datetime":
        raise not_supported("the masking function datetime")
    if sql_type.name not in TEXTS | NUMBERS | TIMES | BINARIES:
        raise not_supported(f"a mask on a column of type {sql_type.name}")
    arguments = call["arguments"]
    pattern = {RANDOM: _RANDOM, PARTIAL: _PARTIAL}.get(name)
    if pattern is None:
        if arguments.strip():
            raise messages.error(16004, call["name"], column)
        return Mask(name)
    found = pattern.fullmatch(arguments)
    if found is None:
        raise messages.error(16004, call["name"], column)
    if name == RANDOM:
        return Mask(name, (int(found[1]), int(found[2])))
    return Mask(name, (int(found[1]), int(found[3])), found[2])


def known_mask(text: str) -> Mask:
    """A masking function as a column keeps it."""
    return read_mask(text, "", SqlType("int" if text.startswith(RANDOM) else "varchar", length=1))


@sqlite_function("t_mask_email", 1)
def email(value: str) -> str:
    """``aXXX@XXXX.com``."""
    return f"{value[:1]}XXX@XXXX.com"


@sqlite_function("t_mask_partial", 4)
def partial(value: str, prefix: int, padding: str, suffix: int) -> str:
    """The first and last letters, with padding in between."""
    if len(value) <= prefix + suffix:
        return padding
    return value[:prefix] + padding + value[len(value) - suffix :]


@sqlite_function("t_mask_random", 3, deterministic=False)
def random_number(_value: object, low: int, high: int) -> int:
    """Another number each time."""
    return random.randint(min(low, high), max(low, high))  # noqa: S311 - a mask is no secret
