"""Partition functions and schemes, ALTER TABLE .. SWITCH, filegroups."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from emulator.errors import SqlError, not_supported
from emulator.results import Event, Message, StatementDone
from emulator.storage import filegroups
from emulator.storage import partitions as store
from emulator.storage.database import Database
from emulator.storage.model import Table
from emulator.tsql.compile.names import stored_table
from emulator.tsql.definition.switch_checks import refuse_different_tables
from emulator.tsql.syntax.nodes import Expression
from emulator.tsql.syntax.partition_statements import (
    AlterFiles,
    AlterPartitionFunction,
    AlterSwitch,
    CreatePartitionFunction,
    CreatePartitionScheme,
    DropPartitioning,
)
from emulator.tsql.syntax.statements import Placement
from emulator.types import INT, MAX, SqlType, StorageValue

if TYPE_CHECKING:
    from emulator.catalog.context import SessionContext
    from emulator.tsql.compile.frames import Frame

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
            raise SqlError(7702, "Empty Partition function type-parameter-list is not allowed when"
                           " defining a partition function.")  # fmt: skip
        known = store.partition_functions(database)
        if store.find_function(database, node.name) is not None:
            raise SqlError(7714, f"There is already an object named '{node.name}' in the"
                           " database.", state=6)  # fmt: skip
        values = [self.evaluate(value, frame, node.type) for value in node.values]
        if len(set(values)) != len(values):
            raise SqlError(
                7708,
                "Duplicate values are not allowed in partition function boundary values list."
                f" Partition boundary values at ordinal {_repeated(values)} are equal.",
            )
        ordered: list[Any] = sorted(values, key=lambda v: (v is not None, v))
        number = max((f.function_id for f in known), default=store.FIRST_ID - 1) + 1
        made = store.PartitionFunction(number, node.name, node.type, node.right, tuple(ordered))
        store.save_functions(self.context.store, database, [*known, made])
        yield StatementDone("other")
        if ordered != values:
            yield Message(
                7709,
                "Warning: Range value list for partition function"
                f" '{node.name}' is not sorted by value. Mapping of partitions to filegroups during"
                " CREATE PARTITION SCHEME will use the sorted boundary values if the function"
                f" '{node.name}' is referenced in CREATE PARTITION SCHEME.",
                severity=10,
            )

    def _alter_function(self, node: AlterPartitionFunction, frame: Frame) -> Iterator[Event]:
        database = self.context.database
        function = self._function(node.name)
        value: Any = self.evaluate(node.value, frame, function.type)
        known: list[Any] = list(function.boundaries)
        if node.split == (value in known):
            raise SqlError(
                7721 if node.split else 7715,
                "Duplicate range boundary values are not allowed in partition function boundary"
                f" values list. The boundary value being added is already present at ordinal"
                f" {known.index(value) + 1} of the boundary value list."
                if node.split
                else "The specified partition range value could not be found.",
            )
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
            raise SqlError(7714, f"There is already an object named '{node.name}' in the"
                           " database.", state=6)  # fmt: skip
        for group in node.filegroups:
            if filegroups.find_filegroup(database, group) is None:
                raise _no_filegroup(group)
        wanted = function.partition_count
        groups = node.filegroups * wanted if node.to_all else node.filegroups
        if len(groups) < wanted:
            raise SqlError(
                7707,
                f"The associated partition function '{function.name}' generates more partitions"
                f" than there are file groups mentioned in the scheme '{node.name}'.",
            )
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
            raise SqlError(3701, f"Cannot drop the {kind} '{node.name}', because it does not exist"
                           " or you do not have permission.", severity=11)  # fmt: skip
        if users:
            raise SqlError(
                7717 if node.kind == "SCHEME" else 7706,
                f"The {kind} '{node.name}' is currently being used to partition one or more tables."
                if node.kind == "SCHEME"
                else f"Partition function '{node.name}' is being used by one or more partition"
                " schemes.",
            )
        save: Any = store.save_schemes if node.kind == "SCHEME" else store.save_functions
        save(self.context.store, database, rest)
        yield StatementDone("other")

    def _function(self, name: str) -> store.PartitionFunction:
        found = store.find_function(self.context.database, name)
        if found is None:
            raise SqlError(7726, f"Invalid object name '{name}'.")
        return found

    # SWITCH -------------------------------------------------------------------------------------

    def _switch(self, node: AlterSwitch, frame: Frame) -> Iterator[Event]:
        database, source = stored_table(self.context, node.source, node.line)
        other, target = stored_table(self.context, node.target, node.line)
        if other is not database:
            raise SqlError(
                4948,
                f"ALTER TABLE SWITCH statement failed. The source table"
                f" '{store.full_name(database, source)}' is in database '{database.name}' while the"
                f" target table '{store.full_name(other, target)}' is in database '{other.name}'.",
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
            raise SqlError(
                4911,
                "Cannot specify a partitioned table without partition number in ALTER TABLE SWITCH"
                f" statement. The table '{name}' is partitioned.",
            )
        chosen = self.evaluate(number, frame, INT)
        shown = chosen if isinstance(chosen, int) else "NULL"
        if not isinstance(chosen, int) or not 1 <= chosen <= function.partition_count:
            raise SqlError(
                4950,
                f"ALTER TABLE SWITCH statement failed because partition number {shown} does not"
                f" exist in table '{name}'.",
            )
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


def place(context: SessionContext, database: Database, table: Table, where: Placement) -> None:
    """Puts a new table onto the filegroup or partition scheme that its definition names.

    Raises:
        SqlError: 1921 for a name that is neither, 1911 for a column that the table has not.
    """
    if where.column is None:
        group = filegroups.find_filegroup(database, where.name)
        if group is not None:
            if group.data_space_id != 1:
                store.place_table(context.store, database, replace(table, filegroup=group.name))
            return
        if where.name.casefold() in {"default", "primary"}:
            return
        raise _no_filegroup(where.name)
    scheme = store.find_scheme(database, where.name)
    if scheme is None:
        raise SqlError(1921, f"Invalid partition scheme '{where.name}' specified.")
    column = table.column(where.column)
    function = store.find_function(database, scheme.function)
    if column is None or function is None:
        raise SqlError(
            1911, f"Column name '{where.column}' does not exist in the target table or view."
        )
    if (column.type.name, column.type.scale) != (function.type.name, function.type.scale):
        raise SqlError(
            7726,
            f"Partition column '{column.name}' has data type {column.type.name} which is different"
            f" from the partition function '{function.name}' parameter data type"
            f" {function.type.name}.",
        )
    for index in table.indexes:
        if index.unique and column.column_id not in index.column_ids:
            raise SqlError(
                1908,
                f"Column '{column.name}' is partitioning column of the index '{index.name}'."
                " Partition columns for a unique index must be a subset of the index key.",
            )
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
        raise SqlError(5042, f"The filegroup '{group}' cannot be removed because it is not empty.")


def _no_filegroup(name: str) -> SqlError:
    return SqlError(1921, f"Invalid filegroup '{name}' specified.")


def _repeated(values: list[StorageValue]) -> str:
    for position, value in enumerate(values):
        if value in values[:position]:
            return f"{values.index(value) + 1} and {position + 1}"
    return ""
