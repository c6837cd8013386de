"""What who compiles a part of a statement may ask of its compiler.

The compilers (expressions.py, sources.py, queries.py) call functions of functions/, users'
functions, FOR XML and so on; those know them by these Protocols.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable

    from tailrace_emulator.tsql.compile.compiler import Compilation
    from tailrace_emulator.tsql.compile.plan import Execution
    from tailrace_emulator.tsql.compile.scope import Scope
    from tailrace_emulator.tsql.compile.values import Value
    from tailrace_emulator.tsql.syntax.nodes import Expression, Query
    from tailrace_emulator.values.types import SqlType, StorageValue


class Expressions(Protocol):
    """Compiles expressions of a statement."""

    compilation: Compilation

    def value(self, node: Expression, scope: Scope) -> Value:
        """A scalar."""

    def condition(self, node: Expression, scope: Scope) -> str:
        """A condition: yields 1, 0 or NULL."""

    def cast(
        self, value: Value, target: SqlType, style: int | None = None, *, quiet: bool = False
    ) -> Value:
        """CAST or CONVERT; with ``quiet`` TRY_CAST."""

    def as_text(self, value: Value) -> Value:
        """A value as text."""

    def as_int(self, value: Value) -> Value:
        """A value as int."""


class Queries(Protocol):
    """What sources take from the compiler of their query."""

    def derived(self, query: Query, parent: Scope | None) -> tuple[str, list[Value]]:
        """Text and columns of a subquery in FROM."""

    def common_table(self, name: str) -> tuple[str, list[Value]] | None:
        """A CTE in sight: its SQLite name and columns."""

    def elsewhere(self, query: Query) -> tuple[str, list[Value]]:
        """Text and columns of a query to which no CTE of this one is in sight."""


class Sources(Protocol):
    """Compiles the sources in FROM."""

    compilation: Compilation

    @property
    def expressions(self) -> Expressions:
        """Compiles expressions in ON and in arguments."""

    @property
    def queries(self) -> Queries:
        """The compiler of the query."""

    def argument_reader(
        self, values: list[Value]
    ) -> Callable[[Execution], tuple[StorageValue, ...]]:
        """Evaluates the arguments of a table function before the statement runs."""
