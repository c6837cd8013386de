"""What a data statement changes: a stored table, or one of the session's own."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

from emulator import messages
from emulator.catalog.names import is_local_temporary
from emulator.catalog.replicated_size import checked_changes, checked_rows
from emulator.errors import not_supported
from emulator.tsql.compile.firing import PSEUDO_TABLES
from emulator.tsql.compile.names import base_object
from emulator.tsql.syntax.nodes import TableName, VariableTable
from emulator.types import StorageValue

if TYPE_CHECKING:
    from emulator.catalog.context import SessionContext
    from emulator.storage.engine import Database
    from emulator.storage.model import Table
    from emulator.tsql.compile.compiler import Compilation
    from emulator.tsql.compile.local_tables import LocalTable


class Target(Protocol):
    """A table that rows are written to."""

    @property
    def table(self) -> Table:
        """Its definition."""

    @property
    def shown(self) -> str:
        """Its name in messages: database.schema.table, @t or #t."""

    @property
    def database_name(self) -> str:
        """The database, for messages."""

    def is_replaced(self, event: str) -> bool:
        """Whether an INSTEAD OF trigger runs in place of an INSERT, UPDATE or DELETE."""

    def source(self, compilation: Compilation) -> str:
        """SQLite text for FROM, with rid."""

    def insert(self, context: SessionContext, rows: Iterable[Sequence[Any]]) -> list[int]:
        """Inserts full rows; returns their row ids."""

    def update(self, context: SessionContext, changes: Iterable[tuple[int, Any]]) -> int:
        """Replaces rows."""

    def delete(self, context: SessionContext, rids: Iterable[int]) -> int:
        """Deletes rows."""

    def truncate(self, context: SessionContext) -> None:
        """Removes every row."""

    def read(
        self, context: SessionContext, rids: Sequence[int]
    ) -> dict[int, tuple[StorageValue, ...]]:
        """Rows by row id, as they are now."""


@dataclass(frozen=True, slots=True)
class StoredTarget:
    """A table of a database."""

    table: Table
    database: Database
    written: set[int] = field(default_factory=set, compare=False)
    """Positions of columns that .WRITE() changes: it looks itself at how much is added."""

    @property
    def shown(self) -> str:
        """See :class:`Target`."""
        return f"{self.database.name}.{self.table.schema}.{self.table.name}"

    @property
    def database_name(self) -> str:
        """See :class:`Target`."""
        return self.database.name

    def is_replaced(self, _event: str) -> bool:
        """See :class:`Target`."""
        return False

    def source(self, compilation: Compilation) -> str:
        """See :class:`Target`."""
        return compilation.table_hole(self.table)

    def insert(self, context: SessionContext, rows: Iterable[Sequence[Any]]) -> list[int]:
        """See :class:`Target`."""
        rows = checked_rows(context.engine, self.table, rows)
        return context.store.insert(self.table, rows)  # type: ignore[arg-type]

    def update(self, context: SessionContext, changes: Iterable[tuple[int, Any]]) -> int:
        """See :class:`Target`."""
        changes = checked_changes(
            context.engine,
            self.table,
            changes,
            lambda rids: self.read(context, rids),
            self.written,
        )
        return context.store.update(self.table, changes)

    def delete(self, context: SessionContext, rids: Iterable[int]) -> int:
        """See :class:`Target`."""
        return context.store.delete(self.table, rids)

    def truncate(self, context: SessionContext) -> None:
        """See :class:`Target`."""
        context.store.truncate(self.table)

    def read(
        self, context: SessionContext, rids: Sequence[int]
    ) -> dict[int, tuple[StorageValue, ...]]:
        """See :class:`Target`."""
        return _read(context, context.store.source(self.table), self.table, rids)


@dataclass(frozen=True, slots=True)
class LocalTarget:
    """A table variable or #temp table."""

    local: LocalTable

    @property
    def table(self) -> Table:
        """See :class:`Target`."""
        return self.local.table

    @property
    def shown(self) -> str:
        """See :class:`Target`."""
        return self.local.shown

    @property
    def database_name(self) -> str:
        """See :class:`Target`."""
        return "tempdb"

    def is_replaced(self, _event: str) -> bool:
        """See :class:`Target`."""
        return False

    def source(self, compilation: Compilation) -> str:
        """See :class:`Target`."""
        compilation.depend_on_local_tables()
        return self.local.source

    def _keep_copy(self, context: SessionContext) -> None:
        if context.store.trancount:
            self.local.keep_copy(len(context.store.savepoint_names))

    def insert(self, context: SessionContext, rows: Iterable[Sequence[Any]]) -> list[int]:
        """See :class:`Target`."""
        self._keep_copy(context)
        rids = self.local.insert(rows)
        if rids and self.local.identity_last is not None:
            context.store.last_identity = self.local.identity_last
        return rids

    def update(self, context: SessionContext, changes: Iterable[tuple[int, Any]]) -> int:
        """See :class:`Target`."""
        self._keep_copy(context)
        return self.local.update(changes)

    def delete(self, context: SessionContext, rids: Iterable[int]) -> int:
        """See :class:`Target`."""
        self._keep_copy(context)
        return self.local.delete(rids)

    def truncate(self, context: SessionContext) -> None:
        """See :class:`Target`."""
        self._keep_copy(context)
        self.local.truncate()

    def read(
        self, context: SessionContext, rids: Sequence[int]
    ) -> dict[int, tuple[StorageValue, ...]]:
        """See :class:`Target`."""
        return _read(context, self.local.source, self.table, rids)


def _read(
    context: SessionContext, source: str, table: Table, rids: Sequence[int]
) -> dict[int, tuple[StorageValue, ...]]:
    """Rows of a source by row id."""
    columns = ", ".join(c.sqlite_name for c in table.columns)
    text = f"SELECT rid, {columns} FROM {source} WHERE rid IN (SELECT value FROM json_each(?))"
    rows: list[Any] = context.store.connection.execute(text, (json.dumps(list(rids)),)).fetchall()
    return {row[0]: row[1:] for row in rows}


def resolve_target(compilation: Compilation, node: TableName | VariableTable) -> Target:
    """The table that a statement names.

    Raises:
        SqlError: 208, 1087; 259 for a system view; 50900 for a view.
    """
    if isinstance(node, VariableTable):
        local = compilation.frame.tables.get(node.name.casefold())
        compilation.depend_on_local_tables()
        if local is None:
            raise messages.undeclared_table_variable(node.name)
        if node.name.casefold() in compilation.frame.read_only:
            raise messages.error(10700, node.name)
        return LocalTarget(local)
    if is_local_temporary(node.name[-1]):
        local = compilation.workspace.temporary.get(node.name[-1].casefold())
        compilation.depend_on_local_tables()
        if local is None:
            raise messages.invalid_object(node.name, node.line)
        return LocalTarget(local)
    if compilation.frame.trigger is not None and node.name[-1].casefold() in PSEUDO_TABLES:
        raise messages.error(286, line=node.line)
    where = base_object(compilation.context, node.name, node.line)
    compilation.depend_on(where.database)
    table = where.database.table(where.schema, where.name)
    if table is None:
        if where.database.module(where.schema, where.name) is not None:
            raise not_supported("changing rows through a view")
        if where.schema.casefold() in {"sys", "information_schema"}:
            raise messages.error(259, line=node.line)
        raise messages.invalid_object(node.name, node.line)
    target = StoredTarget(table, where.database)
    triggers = [m for m in where.database.triggers(table.object_id) if not m.is_disabled]
    if not triggers:
        return target
    from emulator.tsql.compile.triggered_target import TriggeredTarget

    return TriggeredTarget(target, tuple(triggers), compilation.workspace)
