"""Partition functions and schemes, ALTER TABLE .. SWITCH, filegroups."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from tailrace_emulator import messages
from tailrace_emulator.messages.errors import Aborts, SqlError, not_supported
from tailrace_emulator.storage import filegroups
from tailrace_emulator.storage import partitions as store
from tailrace_emulator.storage.database import Database
from tailrace_emulator.storage.model import Table
from tailrace_emulator.tsql.compile.names import stored_table
from tailrace_emulator.tsql.definition.switch_checks import refuse_different_tables
from tailrace_emulator.tsql.syntax.nodes import Expression
from tailrace_emulator.tsql.syntax.partition_statements import (
    AlterFiles,
    AlterPartitionFunction,
    AlterSwitch,
    CreatePartitionFunction,
    CreatePartitionScheme,
    DropPartitioning,
)
from tailrace_emulator.tsql.syntax.statements import Placement
from tailrace_emulator.values.results import Event, Message, StatementDone
from tailrace_emulator.values.types import INT, MAX, SqlType, StorageValue

if TYPE_CHECKING:
    from tailrace_emulator.catalog.context import SessionContext
    from tailrace_emulator.tsql.compile.frames import Frame

Evaluate = Callable[[Expression, "Frame", SqlType], StorageValue]


class PartitionRunner:
    """Runs the statements of partition_statements.py for one session."""

    def __init__(self, context: SessionContext, evaluate: Evaluate) -> None:
        self.context = context
        self.evaluate = evaluate

    def methods(self) -> dict[type, Callable[[Any, Frame], Iterator[Event]]]:
        """What runs each statement."""
        return {
            CreatePartitionFunction: self._create_function,
            AlterPartitionFunction: self._alter_function,
            CreatePartitionScheme: self._create_scheme,
            DropPartitioning: self._drop,
            AlterSwitch: self._switch,
            AlterFiles: self._files,
        }

    # Functions and schemes ----------------------------------------------------------------------

    def _create_function(self, node: CreatePartitionFunction, frame: Frame) -> Iterator[Event]:
        database = self.context.database
        if node.type.length == MAX or node.type.name in {"text", "ntext", "image", "xml"}:
            raise messages.error(7702)
        known = store.partition_functions(database)
        if store.find_function(database, node.name) is not None:
            raise messages.error(7714, node.name)
        values = [self.evaluate(value, frame, node.type) for value in node.values]
        if len(set(values)) != len(values):
            raise messages.error(7708, _repeated(values))
        ordered: list[Any] = sorted(values, key=lambda v: (v is not None, v))
        number = max((f.function_id for f in known), default=store.FIRST_ID - 1) + 1
        made = store.PartitionFunction(number, node.name, node.type, node.right, tuple(ordered))
        store.save_functions(self.context.store, database, [*known, made])
        yield StatementDone("other")
        if ordered != values:
            yield Message(7709, messages.text(7709, node.name, node.name), severity=10)

    def _alter_function(self, node: AlterPartitionFunction, frame: Frame) -> Iterator[Event]:
        database = self.context.database
        function = self._function(node.name)
        value: Any = self.evaluate(node.value, frame, function.type)
        known: list[Any] = list(function.boundaries)
        if node.split == (value in known):
            if node.split:
                raise messages.error(7721, known.index(value) + 1)
            raise messages.error(7715)
        changed = [*known, value] if node.split else [v for v in known if v != value]
        functions = [
            replace(f, boundaries=tuple(sorted(changed))) if f.name == function.name else f
            for f in store.partition_functions(database)
        ]
        store.save_functions(self.context.store, database, functions)
        yield StatementDone("other")

    def _create_scheme(self, node: CreatePartitionScheme, _: Frame) -> Iterator[Event]:
        database = self.context.database
        function = self._function(node.function)
        known = store.partition_schemes(database)
        if store.find_scheme(database, node.name) is not None:
            raise messages.error(7714, node.name)
        for group in node.filegroups:
            if filegroups.find_filegroup(database, group) is None:
                raise _no_filegroup(group)
        wanted = function.partition_count
        groups = node.filegroups * wanted if node.to_all else node.filegroups
        if len(groups) < wanted:
            raise messages.error(7707, function.name, node.name)
        number = max((s.data_space_id for s in known), default=store.FIRST_ID) + 1
        made = store.PartitionScheme(number, node.name, function.name, groups[:wanted])
        store.save_schemes(self.context.store, database, [*known, made])
        yield StatementDone("other")

    def _drop(self, node: DropPartitioning, _: Frame) -> Iterator[Event]:
        database = self.context.database
        folded = node.name.casefold()
        if node.kind == "SCHEME":
            schemes = store.partition_schemes(database)
            users = [t.name for t in database.tables()
                     if (t.partition_scheme or "").casefold() == folded]  # fmt: skip
            rest: list[Any] = [s for s in schemes if s.name.casefold() != folded]
            missing = len(rest) == len(schemes)
        else:
            functions = store.partition_functions(database)
            users = [s.name for s in store.partition_schemes(database)
                     if s.function.casefold() == folded]  # fmt: skip
            rest = [f for f in functions if f.name.casefold() != folded]
            missing = len(rest) == len(functions)
        kind = f"partition {node.kind.lower()}"
        if missing:
            raise messages.error(3701, "drop", kind, node.name, state=1)
        if users:
            raise messages.error(7717 if node.kind == "SCHEME" else 7706, node.name)
        save: Any = store.save_schemes if node.kind == "SCHEME" else store.save_functions
        save(self.context.store, database, rest)
        yield StatementDone("other")

    def _function(self, name: str) -> store.PartitionFunction:
        found = store.find_function(self.context.database, name)
        if found is None:
            raise messages.error(208, name, aborts=Aborts.STATEMENT)
        return found

    # SWITCH -------------------------------------------------------------------------------------

    def _switch(self, node: AlterSwitch, frame: Frame) -> Iterator[Event]:
        database, source = stored_table(self.context, node.source, node.line)
        other, target = stored_table(self.context, node.target, node.line)
        if other is not database:
            raise messages.error(
                4948,
                store.full_name(database, source),
                database.name,
                store.full_name(other, target),
                other.name,
            )
        connection = self.context.store.connection
        switching = self.context.engine.extension.switching
        switching(connection, database, source, is_source=True)
        switching(connection, database, target, is_source=False)
        refuse_different_tables(database, source, target)
        moved = [
            self._partition(database, table, number, frame)
            for table, number in (
                (source, node.source_partition),
                (target, node.target_partition),
            )
        ]
        store.switch(self.context.store, database, moved[0], moved[1])
        yield StatementDone("other")

    def _partition(
        self, database: Database, table: Table, number: Expression | None, frame: Frame
    ) -> store.Partition:
        function = store.function_of(database, table)
        name = store.full_name(database, table)
        if function is None:
            return store.Partition(table, None)
        if number is None:
            raise messages.error(4911, name)
        chosen = self.evaluate(number, frame, INT)
        shown = chosen if isinstance(chosen, int) else "NULL"
        if not isinstance(chosen, int) or not 1 <= chosen <= function.partition_count:
            raise messages.error(4950, shown, name)
        return store.Partition(table, chosen, function)

    # Filegroups ---------------------------------------------------------------------------------

    def _files(self, node: AlterFiles, _: Frame) -> Iterator[Event]:
        engine = self.context.engine
        if node.action != "ignored":
            database = engine.database(node.database) if node.database else self.context.database
            with engine.write() as connection:
                if node.action == "add_filegroup":
                    filegroups.add_filegroup(connection, database, node.filegroup)
                elif node.action == "remove_filegroup":
                    _refuse_used(database, node.filegroup)
                    filegroups.remove_filegroup(connection, database, node.filegroup)
                elif node.action == "default_filegroup":
                    filegroups.make_default(connection, database, node.filegroup)
                else:
                    for file in node.files:
                        filegroups.add_file(connection, database, node.filegroup, file)
        yield StatementDone("other")


def place_by_default(context: SessionContext, database: Database, table: Table) -> None:
    """Puts a new table onto the default filegroup."""
    group = next((g for g in filegroups.filegroups(database) if g.is_default), None)
    if group is not None and group.data_space_id != filegroups.PRIMARY_ID:
        store.place_table(context.store, database, replace(table, filegroup=group.name))


def place(context: SessionContext, database: Database, table: Table, where: Placement) -> None:
    """Puts a new table onto the filegroup or partition scheme that its definition names.

    Raises:
        SqlError: 1921 for a name that is neither, 1911 for a column that the table has not.
    """
    if where.column is None:
        is_default = where.name.casefold() == "default"
        group = filegroups.find_filegroup(database, where.name)
        if group is None and not is_default and where.name.casefold() != "primary":
            raise _no_filegroup(where.name)
        if is_default and group is None:
            place_by_default(context, database, table)
        elif group is not None and group.data_space_id != filegroups.PRIMARY_ID:
            store.place_table(context.store, database, replace(table, filegroup=group.name))
        return
    scheme = store.find_scheme(database, where.name)
    if scheme is None:
        raise messages.error(1921, "partition scheme", where.name)
    column = table.column(where.column)
    function = store.find_function(database, scheme.function)
    if column is None or function is None:
        raise messages.error(1911, where.column, aborts=Aborts.STATEMENT)
    if (column.type.name, column.type.scale) != (function.type.name, function.type.scale):
        raise messages.error(7726, column.name, column.type.name, function.name, function.type.name)
    for index in table.indexes:
        if index.unique and column.column_id not in index.column_ids:
            raise messages.error(1908, column.name, index.name)
    if column.computed is not None:
        raise not_supported("partitioning by a computed column")
    store.place_table(
        context.store,
        database,
        replace(table, partition_scheme=scheme.name, partition_column_id=column.column_id),
    )


def _refuse_used(database: Database, group: str) -> None:
    folded = group.casefold()
    used = any((t.filegroup or "").casefold() == folded for t in database.tables())
    used = used or any(
        folded in {g.casefold() for g in s.filegroups} for s in store.partition_schemes(database)
    )
    if used:
        raise messages.error(5042, "filegroup", group)


def _no_filegroup(name: str) -> SqlError:
    return messages.error(1921, "filegroup", name)


def _repeated(values: list[StorageValue]) -> str:
    for position, value in enumerate(values):
        if value in values[:position]:
            return f"{values.index(value) + 1} and {position + 1}"
    return ""
