"""What compiling one statement gathers: parameters, holes, aliases, dependencies."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

from tailrace_emulator import messages
from tailrace_emulator.tsql.compile.access import StatementAccess
from tailrace_emulator.tsql.compile.guard import Guard, generic_type
from tailrace_emulator.tsql.compile.plan import (
    Execution,
    Hole,
    Plan,
    Slot,
    TableHole,
    split_holes,
    used_slots,
)
from tailrace_emulator.tsql.compile.values import Value
from tailrace_emulator.values.types import StorageValue

if TYPE_CHECKING:
    from tailrace_emulator.catalog.context import SessionContext
    from tailrace_emulator.storage.catalog_state import Module
    from tailrace_emulator.storage.engine import Database
    from tailrace_emulator.storage.model import Table
    from tailrace_emulator.tsql.compile.bindings import Binding
    from tailrace_emulator.tsql.compile.frames import Frame
    from tailrace_emulator.tsql.compile.workspace import Workspace
    from tailrace_emulator.values.results import ColumnMeta


class Compilation:
    """The state of compiling one statement for one session."""

    def __init__(
        self,
        context: SessionContext,
        workspace: Workspace,
        frame: Frame,
        *,
        generic: bool = False,
        merge_twins: bool = False,
    ) -> None:
        """Begin.

        Args:
            workspace: its T-SQL state (local tables, views).
            generic: give character and binary variables their longest length.
            merge_twins: assume that parameters compared with one column on both sides of
                ``x > @a OR (x = @b AND ..)`` are equal.
        """
        self.context = context
        self.semantics = context.options.semantics
        self.workspace = workspace
        self.frame = frame
        self.generic = generic
        self.merge_twins = merge_twins
        self.twins: list[tuple[int, int]] = []
        self.database: Database = context.database
        self.guard = Guard([(context.database, context.database.version)])
        self.has_sized_variable = False
        self.access = StatementAccess(context, self.depend_on, frame.chain)
        self.parameters: list[dict[str, Value]] = []
        """Of the inline functions that are being compiled, innermost last."""
        self.sequences: dict[int, str] = {}
        """The sequences that the statement takes values of, by object id: by which number in an
        order, as SQLite text."""
        self.binding: Binding | None = None
        """Notes what a schema-bound object refers to, while it is created."""
        self.checked_views: list[tuple[Database, Module]] = []
        """Views WITH CHECK OPTION that a change goes through."""
        self.taken_sequences: set[int] = set()
        """Object ids of the sequences that a row has taken a value of."""
        self.takes_ordered_sequences = True
        """Whether NEXT VALUE FOR may have an OVER clause."""
        self.uses_masked = False
        """Whether an expression that is being compiled has named a column that is shown masked."""
        self._slots: dict[object, int] = {}
        self._functions: list[Slot] = []
        self._holes: list[Hole] = []
        self._aliases = 0

    # Parameters ---------------------------------------------------------------------------------

    def slot(self, key: object, function: Slot) -> str:
        """The SQLite parameter whose value ``function`` yields; one per key."""
        number = self._slots.get(key)
        if number is None:
            self._functions.append(function)
            number = self._slots[key] = len(self._functions)
        return f"?{number}"

    def variable(self, name: str) -> Value:
        """A variable.

        Raises:
            SqlError: 137 when it is not declared.
        """
        folded = name.casefold()
        if self.parameters:
            if folded not in self.parameters[-1]:
                raise messages.undeclared_variable(name)
            return self.parameters[-1][folded]
        sql_type = self.frame.types.get(folded)
        if sql_type is None:
            raise messages.undeclared_variable(name)
        if self.generic:
            sql_type = generic_type(sql_type)
        elif generic_type(sql_type) is not sql_type:
            self.has_sized_variable = True
        entry = (folded, sql_type, self.generic)
        if entry not in self.guard.variables:
            self.guard.variables.append(entry)

        def value(execution: Execution) -> StorageValue:
            return execution.frame.values[folded]

        return Value(self.slot(("variable", folded), value), sql_type)

    # Text ---------------------------------------------------------------------------------------

    def hole(self, hole: Hole) -> str:
        """A mark that becomes the hole's text at execution."""
        self._holes.append(hole)
        return f"\x01{len(self._holes) - 1}\x01"

    def table_hole(self, table: Table, hints: Sequence[str] = ()) -> str:
        """A stored table, read and locked as its hints ask."""
        return self.hole(TableHole(table, frozenset(hints)))

    def alias(self, prefix: str = "s") -> str:
        """A SQLite alias that nothing else in the statement has."""
        self._aliases += 1
        return f"{prefix}{self._aliases}"

    def depend_on(self, database: Database) -> None:
        """The plan ends with the database's next DDL."""
        if all(known is not database for known, _ in self.guard.databases):
            self.guard.databases.append((database, database.version))

    def depend_on_local_tables(self) -> None:
        """The plan ends when a local table comes or goes."""
        self.guard.local_version = self.workspace.local_version

    @contextmanager
    def inside(self, database: Database) -> Iterator[None]:
        """Compile the text of a module in its own database, where its names are looked up."""
        context, outer = self.context, self.database
        current = context.database
        self.database = context.database = database
        try:
            yield
        finally:
            self.database, context.database = outer, current

    @contextmanager
    def under(self, *, ansi_nulls: bool) -> Iterator[None]:
        """Compiles what keeps the ANSI_NULLS of its creation."""
        outer = self.semantics
        self.semantics = outer.of_module(ansi_nulls=ansi_nulls)
        try:
            yield
        finally:
            self.semantics = outer

    def finished(self, text: str) -> str:
        """Compiled text as it is run under the session's SET options."""
        return self.workspace.lenient(text) if self.semantics.is_lenient else text

    def plan(self, text: str, columns: tuple[ColumnMeta, ...] = ()) -> Plan:
        """The finished plan."""
        parts = split_holes(self.finished(text), self._holes)
        return Plan(parts, tuple(self._functions), columns, used=used_slots(parts))
