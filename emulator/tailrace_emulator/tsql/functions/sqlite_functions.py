"""Where the Python functions register that compiled text calls, and how SQLite learns of them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

import apsw

from tailrace_emulator.tsql.conversions.rules import conversion_of


@dataclass(frozen=True, slots=True)
class SqliteFunction:
    """A Python function that compiled text calls."""

    name: str
    call: Callable[..., Any]
    arguments: int
    deterministic: bool


SQLITE_FUNCTIONS: Final[list[SqliteFunction]] = []
AGGREGATES: Final[list[tuple[str, Callable[[], Any], int]]] = []
"""Name, factory of a window-capable aggregate, number of arguments."""


def sqlite_function(
    name: str, arguments: int = -1, *, deterministic: bool = True, takes_null: bool = False
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Registers what SQLite calls by ``name``.

    Args:
        name: its name in compiled text.
        arguments: how many; -1 any number.
        deterministic: whether equal arguments give equal results within a statement.
        takes_null: whether it sees NULL; otherwise NULL in gives NULL out.
    """

    def register(function: Callable[..., Any]) -> Callable[..., Any]:
        call = function if takes_null else _null_through(function)
        SQLITE_FUNCTIONS.append(SqliteFunction(name, call, arguments, deterministic))
        return function

    return register


def _null_through(function: Callable[..., Any]) -> Callable[..., Any]:
    """NULL in any argument is NULL."""

    def call(*arguments: Any) -> Any:
        for argument in arguments:
            if argument is None:
                return None
        return function(*arguments)

    return call


def convert_by_rule(*arguments: Any) -> Any:
    """``cv(x, rule)``: x converted, by the rule of tsql/conversions/rules.py."""
    value, rule = arguments
    return None if value is None else conversion_of(rule)(value)


def register_functions(connection: apsw.Connection) -> None:
    """Makes every function known to a connection."""
    connection.create_scalar_function("cv", convert_by_rule, 2, deterministic=True)
    for function in SQLITE_FUNCTIONS:
        connection.create_scalar_function(
            function.name,
            function.call,
            function.arguments,
            deterministic=function.deterministic,
        )
    for name, factory, arguments in AGGREGATES:
        connection.create_window_function(name, factory, arguments)
