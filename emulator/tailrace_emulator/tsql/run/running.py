"""What the runners of single statements may ask of the interpreter that they belong to."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Protocol

from tailrace_emulator.tsql.definition.running import Runner, Scopes

if TYPE_CHECKING:
    from tailrace_emulator.catalog.context import SessionContext
    from tailrace_emulator.messages.errors import SqlError
    from tailrace_emulator.tsql.compile.frames import Frame
    from tailrace_emulator.tsql.compile.planner import Planner
    from tailrace_emulator.tsql.definition.ddl import Definer
    from tailrace_emulator.tsql.run.data_runner import DataRunner
    from tailrace_emulator.tsql.run.query_runner import QueryRunner
    from tailrace_emulator.tsql.syntax.statements import Statement
    from tailrace_emulator.values.results import Event


class StatementRunner(Runner, Protocol):
    """The interpreter of one session."""

    planner: Planner
    definer: Definer
    queries: QueryRunner
    data: DataRunner
    try_depth: int

    def block(self, statements: tuple[Statement, ...], frame: Frame) -> Iterator[Event]:
        """Statements one after the other, or from a label on."""

    def raised_in(self, error: SqlError, frame: Frame) -> None:
        """Notes where an error came up that no statement has seen yet: text that did not parse."""


class TextScopes(Scopes, Protocol):
    """What dynamic text needs of who runs procedures."""

    interpreter: StatementRunner
    context: SessionContext

    def counted(self, running: Iterator[Event], frame: Frame) -> Iterator[Event]:
        """A procedure or dynamic text, which is to leave as many transactions as it found."""

    def reported(self, error: SqlError, frame: Frame) -> SqlError:
        """An error on its way out of a scope."""
