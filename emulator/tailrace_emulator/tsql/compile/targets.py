"""What a data statement changes: a stored table, or one of the session's own."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

from tailrace_emulator.storage.values import GENERATED
from tailrace_emulator.values.types import StorageValue

if TYPE_CHECKING:
    from tailrace_emulator.catalog.context import SessionContext
    from tailrace_emulator.storage.engine import Database
    from tailrace_emulator.storage.model import Identity, Table
    from tailrace_emulator.tsql.compile.compiler import Compilation
    from tailrace_emulator.tsql.compile.local_tables import LocalTable


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

    def numbered(self, context: SessionContext, row: tuple[Any, ...]) -> tuple[Any, ...]:
        """A full row of a table with an identity column, with its value."""

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
    assigned: set[int] = field(default_factory=set, compare=False)
    """Positions of columns that the statement sets, whether to other values or not."""

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
        rows = context.engine.extension.inserting(self.database, self.table, rows)
        return context.store.insert(self.table, rows)  # type: ignore[arg-type]

    def numbered(self, context: SessionContext, row: tuple[Any, ...]) -> tuple[Any, ...]:
        """See :class:`Target`."""
        identities = context.engine.identities
        return _numbered(row, self.table, lambda each: identities.take(self.table, each, 1))

    def update(self, context: SessionContext, changes: Iterable[tuple[int, Any]]) -> int:
        """See :class:`Target`."""
        changes = context.engine.extension.updating(
            self.database,
            self.table,
            changes,
            lambda rids: self.read(context, rids),
            self.written,
        )
        return context.store.update(self.table, changes, self.assigned)

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
        return _read(context, context.store.reads.source(self.table), self.table, rids)


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
        of_merge = context.store.work.statement_kind == "MERGE"
        rids = self.local.insert(rows, of_merge=of_merge)
        context.store.work.ignored_duplicates |= self.local.ignored_duplicates
        if rids and self.local.identity_last is not None:
            context.store.last_identity = self.local.identity_last
        return rids

    def numbered(self, context: SessionContext, row: tuple[Any, ...]) -> tuple[Any, ...]:
        """See :class:`Target`."""
        self._keep_copy(context)
        return _numbered(row, self.table, self.local.take_identity)

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


def _numbered(
    row: tuple[Any, ...], table: Table, take: Callable[[Identity], int]
) -> tuple[Any, ...]:
    """The row with a new identity value where it has none."""
    for position, column in enumerate(table.columns):
        if column.identity is not None and row[position] is GENERATED:
            return (*row[:position], take(column.identity), *row[position + 1 :])
    return row


def _read(
    context: SessionContext, source: str, table: Table, rids: Sequence[int]
) -> dict[int, tuple[StorageValue, ...]]:
    """Rows of a source by row id."""
    columns = ", ".join(c.sqlite_name for c in table.columns)
    text = f"SELECT rid, {columns} FROM {source} WHERE rid IN (SELECT value FROM json_each(?))"
    rows: list[Any] = context.store.connection.execute(text, (json.dumps(list(rids)),)).fetchall()
    return {row[0]: row[1:] for row in rows}
