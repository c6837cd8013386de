"""Where built-in functions register: how calls compile, and what SQLite calls at run time."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import apsw

from emulator.tsql.compile.values import Value
from emulator.tsql.conversions.rules import conversion_of
from emulator.tsql.syntax.nodes import Call

if TYPE_CHECKING:
    from emulator.tsql.compile.expressions import ExpressionCompiler
    from emulator.tsql.compile.scope import Scope

ValueBuilder = Callable[["ExpressionCompiler", list[Value]], Value]
SyntaxBuilder = Callable[["ExpressionCompiler", Call, "Scope"], Value]


@dataclass(frozen=True, slots=True)
class Builtin:
    """A function of T-SQL: one of the two builders, and how many arguments it takes."""

    name: str
    minimum: int
    maximum: int
    values: ValueBuilder | None = None
    syntax: SyntaxBuilder | None = None


@dataclass(frozen=True, slots=True)
class SqliteFunction:
    """A Python function that compiled text calls."""

    name: str
    call: Callable[..., Any]
    arguments: int
    deterministic: bool


BUILDERS: Final[dict[str, Builtin]] = {}
"""By upper-case name."""

SQLITE_FUNCTIONS: Final[list[SqliteFunction]] = []
AGGREGATES: Final[list[tuple[str, Callable[[], Any], int]]] = []
"""Name, factory of a window-capable aggregate, number of arguments."""


def builtin(
    name: str, minimum: int, maximum: int | None = None
) -> Callable[[ValueBuilder], ValueBuilder]:
    """Registers the builder of a function whose arguments are all scalars."""

    def register(build: ValueBuilder) -> ValueBuilder:
        limit = minimum if maximum is None else maximum
        BUILDERS[name] = Builtin(name, minimum, limit, values=build)
        return build

    return register


def special(
    name: str, minimum: int, maximum: int | None = None
) -> Callable[[SyntaxBuilder], SyntaxBuilder]:
    """Registers the builder of a function that looks at its syntax (date parts, conditions)."""

    def register(build: SyntaxBuilder) -> SyntaxBuilder:
        limit = minimum if maximum is None else maximum
        BUILDERS[name] = Builtin(name, minimum, limit, syntax=build)
        return build

    return register


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
    """``cv(x, rule)``: x converted, as emulator/tsql/conversions/rules.py has it."""
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
