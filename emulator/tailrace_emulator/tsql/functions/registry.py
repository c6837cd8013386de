"""Where built-in functions register how their calls compile.

What SQLite calls at run time registers in sqlite_functions.py.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from tailrace_emulator.tsql.compile.values import Value
from tailrace_emulator.tsql.syntax.nodes import Call

if TYPE_CHECKING:
    from tailrace_emulator.tsql.compile.compilers import Expressions
    from tailrace_emulator.tsql.compile.scope import Scope

ValueBuilder = Callable[["Expressions", list[Value]], Value]
SyntaxBuilder = Callable[["Expressions", Call, "Scope"], Value]


@dataclass(frozen=True, slots=True)
class Builtin:
    """A function of T-SQL: one of the two builders, and how many arguments it takes."""

    name: str
    minimum: int
    maximum: int
    values: ValueBuilder | None = None
    syntax: SyntaxBuilder | None = None


BUILDERS: Final[dict[str, Builtin]] = {}
"""By upper-case name."""


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
