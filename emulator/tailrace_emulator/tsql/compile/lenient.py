"""Arithmetic under ANSI_WARNINGS OFF with ARITHABORT OFF: NULL and a message instead of an error.

The functions that compiled text calls have lenient twins (``lenient_x`` of ``x``). The connection
of a session learns them when it first compiles so, and finished text is changed to call them.
Everyone else pays nothing for it.

https://learn.microsoft.com/sql/t-sql/statements/set-arithabort-transact-sql

Inferred: what cannot be read as a number (245, 248, 8114) is still an error. So is a domain error
of dates (517); users found so. A message comes once per statement, overflow first.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import cache
from typing import TYPE_CHECKING, Any, Final

from tailrace_emulator.messages.errors import SqlError
from tailrace_emulator.tsql.functions.sqlite_functions import (
    AGGREGATES,
    SQLITE_FUNCTIONS,
    convert_by_rule,
)

if TYPE_CHECKING:
    import apsw

ARITHMETIC_OVERFLOW: Final = 3606
DIVISION_BY_ZERO: Final = 3607
INVALID_FLOATING_POINT: Final = 3622

_MESSAGES: Final = {
    220: ARITHMETIC_OVERFLOW,
    232: ARITHMETIC_OVERFLOW,
    8115: ARITHMETIC_OVERFLOW,
    8134: DIVISION_BY_ZERO,
    3623: INVALID_FLOATING_POINT,
}
"""The message in place of each error."""
ARITHMETIC_ERRORS: Final = frozenset(_MESSAGES)
_NO_REAL: Final = 232
"""Of a conversion to real, which gives 0 (users found so)."""

_PREFIX: Final = "lenient_"
_BIGINT_MAX: Final = 2**63 - 1
_CALL: Final = re.compile(r"'(?:[^']|'')*'|\"(?:[^\"]|\"\")*\"|\b(?P<name>cv|sum|t_\w+)(?=\()")

Note = Callable[[int], None]
"""Takes the number of a message that the statement owes."""


class LenientSum:
    """SQLite's ``sum``, whose overflow is an error of the whole statement."""

    def __init__(self) -> None:
        self.total: Any = 0
        self.count = 0

    def step(self, value: Any) -> None:
        """A row enters."""
        if value is not None:
            self.total += value
            self.count += 1

    def inverse(self, value: Any) -> None:
        """A row leaves the window."""
        if value is not None:
            self.total -= value
            self.count -= 1

    def value(self) -> Any:
        """The sum now; as a float where no integer of SQLite holds it, which is an overflow."""
        if not self.count:
            return None
        return self.total if abs(self.total) <= _BIGINT_MAX else float(self.total)

    def final(self) -> Any:
        """The sum at the end."""
        return self.value()


@cache
def _twins() -> frozenset[str]:
    """Names that have twins; known when every function is registered."""
    functions = {function.name for function in SQLITE_FUNCTIONS}
    return frozenset({"cv", "sum", *functions, *(name for name, _, _ in AGGREGATES)})


def lenient(text: str) -> str:
    """Compiled text that calls the lenient twins."""
    return _CALL.sub(_renamed, text)


def _renamed(match: re.Match[str]) -> str:
    name = match["name"]
    return match[0] if name is None or name not in _twins() else _PREFIX + name


def register_lenient(connection: apsw.Connection, note: Note) -> None:
    """Makes the twins known to a connection.

    Args:
        note: called with each message.
    """
    for function in SQLITE_FUNCTIONS:
        connection.create_scalar_function(
            _PREFIX + function.name, quiet(function.call, note), function.arguments
        )
    connection.create_scalar_function(f"{_PREFIX}cv", quiet(convert_by_rule, note), 2)
    for name, factory, arguments in AGGREGATES:
        connection.create_window_function(_PREFIX + name, _quiet_factory(factory, note), arguments)
    connection.create_window_function(f"{_PREFIX}sum", LenientSum, 1)


def quiet(call: Callable[..., Any], note: Note) -> Callable[..., Any]:
    """A function whose arithmetic errors are NULL."""

    def attempt(*arguments: Any) -> Any:
        try:
            return call(*arguments)
        except SqlError as error:
            message = _MESSAGES.get(error.number)
            if message is None:
                raise
            note(message)
            return 0.0 if error.number == _NO_REAL else None

    return attempt


def _quiet_factory(factory: Callable[[], Any], note: Note) -> Callable[[], Any]:
    """An aggregate whose results are."""

    def make() -> Any:
        made = factory()
        return _QuietAggregate(made, quiet(made.value, note), quiet(made.final, note))

    return make


class _QuietAggregate:
    """An aggregate with other results."""

    def __init__(self, made: Any, value: Callable[[], Any], final: Callable[[], Any]) -> None:
        self.step = made.step
        self.inverse = made.inverse
        self.value = value
        self.final = final
