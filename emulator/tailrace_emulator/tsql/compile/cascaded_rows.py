"""Rows that foreign keys change: their defaults, computed columns and CHECK constraints."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from tailrace_emulator.storage.cascades import Row
from tailrace_emulator.tsql.certain import known
from tailrace_emulator.tsql.compile.compiler import Compilation
from tailrace_emulator.tsql.compile.frames import Frame
from tailrace_emulator.tsql.compile.plan import Execution
from tailrace_emulator.tsql.compile.rows import RowProgram, compile_defaults, row_program
from tailrace_emulator.tsql.compile.targets import StoredTarget
from tailrace_emulator.values.types import StorageValue

if TYPE_CHECKING:
    from tailrace_emulator.catalog.context import SessionContext
    from tailrace_emulator.storage.model import Table
    from tailrace_emulator.tsql.compile.workspace import Workspace


class CascadedRows:
    """The T-SQL layer's part in a cascade: storage's ``RowRules``."""

    def __init__(self, context: SessionContext, workspace: Workspace) -> None:
        self.context = context
        self.workspace = workspace
        self._programs: dict[str, tuple[Table, object, RowProgram | None]] = {}
        """By the table's name inside SQLite, with what it was compiled for."""

    def _target(self, table: Table) -> StoredTarget:
        database = self.context.engine.database_by_id(table.database_id)
        return StoredTarget(table, known(database, "database of a cascade"))

    def defaults(self, table: Table, positions: Sequence[int]) -> dict[int, StorageValue]:
        """See ``RowRules``."""
        frame = Frame()
        compilation = Compilation(self.context, self.workspace, frame)
        defaults = compile_defaults(compilation, self._target(table), positions)
        return defaults.values(Execution(self.context, self.workspace, frame))

    def completed(self, table: Table, row: Row, statement: str) -> Row:
        """See ``RowRules``."""
        if not table.checks and not any(c.computed and c.persisted for c in table.columns):
            return row
        target, frame = self._target(table), Frame()
        made_for = target.database.version, self.context.options.semantics
        kept = self._programs.get(table.sqlite_name)
        if kept is None or kept[0] is not table or kept[1] != made_for:
            compilation = Compilation(self.context, self.workspace, frame)
            kept = table, made_for, row_program(compilation, target)
            self._programs[table.sqlite_name] = kept
        program = kept[2]
        if program is None:
            return row
        execution = Execution(self.context, self.workspace, frame)
        completed: Row = program.run(execution, row, statement, target)
        return completed
