"""CREATE, ALTER and DROP: definitions compiled here, kept by tailrace_emulator.storage.ddl."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from tailrace_emulator import messages
from tailrace_emulator.catalog.names import (
    GLOBAL_PREFIX,
    is_local_temporary,
    name_of_its_session,
)
from tailrace_emulator.messages.errors import Aborts, SqlError, not_supported
from tailrace_emulator.storage import ddl as store_ddl
from tailrace_emulator.storage.model import Check, Column, ForeignKey, Index, Table
from tailrace_emulator.storage.object_details import put_binding, put_columns, put_parameters
from tailrace_emulator.tsql.compile.frames import Frame
from tailrace_emulator.tsql.compile.index_options import is_demanding, require_options
from tailrace_emulator.tsql.compile.local_tables import TEMPDB_ID, LocalTable
from tailrace_emulator.tsql.compile.names import (
    creation_name,
    module_name,
    resolve_name,
    stored_table,
)
from tailrace_emulator.tsql.compile.user_types import TableShape, with_types
from tailrace_emulator.tsql.definition import databases, sequences, synonyms, type_definitions
from tailrace_emulator.tsql.definition.alter_table import TableAlterer
from tailrace_emulator.tsql.definition.definitions import DefinitionBuilder
from tailrace_emulator.tsql.definition.foreign_key_rules import Referencing, checked_foreign_key
from tailrace_emulator.tsql.definition.function_rules import function_type, refuse_side_effects
from tailrace_emulator.tsql.definition.global_tables import make_room
from tailrace_emulator.tsql.definition.ignored_duplicates import refuse_ignoring
from tailrace_emulator.tsql.definition.index_filters import index_filter
from tailrace_emulator.tsql.definition.partitions import place, place_by_default
from tailrace_emulator.tsql.definition.schema_binding import (
    begin_binding,
    note_body,
    refuse_bound_change,
)
from tailrace_emulator.tsql.definition.trigger_ddl import (
    create_trigger,
    created_text,
    find_trigger,
    switch_trigger,
)
from tailrace_emulator.tsql.definition.view_columns import view_columns
from tailrace_emulator.tsql.syntax.definition_statements import (
    AlterAdd,
    AlterColumn,
    AlterDatabase,
    AlterDrop,
    AlterMask,
    CreateDatabase,
    CreateIndex,
    CreateModule,
    CreateSchema,
    CreateSynonym,
    CreateTable,
    DropObject,
)
from tailrace_emulator.tsql.syntax.nodes import Name
from tailrace_emulator.tsql.syntax.sequence_statements import DefineSequence
from tailrace_emulator.tsql.syntax.statements import (
    ColumnDefinition,
    ConstraintDefinition,
    Placement,
    Statement,
)
from tailrace_emulator.tsql.syntax.switches import SwitchConstraints, SwitchTrigger
from tailrace_emulator.tsql.syntax.type_statements import CreateType

if TYPE_CHECKING:
    from tailrace_emulator.catalog.context import SessionContext
    from tailrace_emulator.storage.engine import Database
    from tailrace_emulator.tsql.compile.bindings import Binding
    from tailrace_emulator.tsql.compile.workspace import Workspace

_KIND_LETTERS = {
    "PROCEDURE": ("P",),
    "VIEW": ("V",),
    "TRIGGER": ("TR",),
    "FUNCTION": ("FN", "IF", "TF"),
}
_DROPPERS = {
    "SYNONYM": synonyms.drop,
    "SEQUENCE": sequences.drop,
    "TYPE": type_definitions.drop_type,
}


class Definer(TableAlterer):
    """Runs definition statements of one session."""

    def __init__(self, context: SessionContext, workspace: Workspace) -> None:
        super().__init__(context, workspace)
        self._methods: dict[type, Callable[[Any, Frame], None]] = {
            CreateDatabase: lambda node, _: databases.create_database(context, node),
            AlterDatabase: lambda node, _: databases.alter_database(context, node),
            CreateSchema: lambda node, _: databases.create_schema(context, node),
            CreateTable: self._create_table,
            CreateIndex: self._create_index,
            CreateSynonym: lambda node, _: synonyms.create(context, node),
            CreateModule: self._create_module,
            CreateType: lambda node, frame: type_definitions.create_type(
                context, node, self.compilation(frame)
            ),
            SwitchTrigger: lambda node, _: switch_trigger(context, node),
            DefineSequence: lambda node, _: sequences.define_sequence(context, node),
            DropObject: self._drop,
            AlterAdd: self.alter_add,
            AlterDrop: self.alter_drop,
            SwitchConstraints: self.switch_constraints,
            AlterColumn: self.alter_column,
            AlterMask: self.alter_mask,
        }

    def handles(self, statement: Statement) -> bool:
        """Whether a statement defines something."""
        return type(statement) in self._methods

    def run(self, statement: Statement, frame: Frame) -> None:
        """Runs one.

        Raises:
            SqlError: what SQL Server would report.
        """
        if isinstance(statement, AlterAdd | AlterDrop):
            # Several columns are several changes: all of them or none, in one transaction.
            self.context.store.run(lambda: self._methods[type(statement)](statement, frame))
            return
        self._methods[type(statement)](statement, frame)

    # Tables -------------------------------------------------------------------------------------

    def _create_table(self, node: CreateTable, frame: Frame) -> None:
        name = node.name[-1]
        where = creation_name(self.context, node.name, node.line)
        builder = DefinitionBuilder(self.compilation(frame), name, where.database)
        parts = builder.parts(node.columns, node.constraints)
        indexes = [*parts.indexes]
        indexes += [self._index(builder, index, parts.columns) for index in node.indexes]
        if is_local_temporary(name):
            self.create_temporary(name, parts.columns, indexes, parts.checks)
            return
        foreign_keys: list[ForeignKey] = []
        if where.name.startswith(GLOBAL_PREFIX):
            parts.foreign_keys.clear()  # they are not enforced on temporary tables
            parts.referenced.clear()
            make_room(self.context, where.name)
        for key, shown in zip(parts.foreign_keys, parts.referenced, strict=True):
            own = Referencing(0, name, parts.columns, indexes, foreign_keys)
            foreign_keys.append(checked_foreign_key(where.database, own, key, shown))
        with self.context.store.statement():
            table = store_ddl.create_table(
                self.context.store,
                where.database,
                where.schema,
                where.name,
                parts.columns,
                indexes=indexes,
                foreign_keys=foreign_keys,
                checks=parts.checks,
            )
            if where.name.startswith(GLOBAL_PREFIX):
                self.workspace.global_tables.add(table.object_id)
            placement = _clustered_placement(node) or node.placement
            if placement is not None:
                place(self.context, where.database, table, placement)
            else:
                place_by_default(self.context, where.database, table)

    def create_temporary(
        self, name: str, columns: list[Column], indexes: list[Index], checks: list[Check]
    ) -> LocalTable:
        """A #temp table.

        Raises:
            SqlError: 2714 when there is one of that name.
        """
        folded = name.casefold()
        if folded in self.workspace.temporary:
            raise messages.already_exists(name)
        table = self.local_table(name, columns, indexes, checks, transactional=True)
        table.is_new = self.context.store.trancount > 0
        self.workspace.temporary[folded] = table
        self.workspace.local_version += 1
        return table

    def local_table(
        self,
        name: str,
        columns: list[Column],
        indexes: list[Index],
        checks: list[Check],
        *,
        transactional: bool,
    ) -> LocalTable:
        """A table of the session's own."""
        numbered = tuple(replace(i, index_id=n) for n, i in enumerate(indexes, 1))
        table = Table(
            -self.workspace.next_local_id(),
            TEMPDB_ID,
            "dbo",
            name,
            tuple(columns),
            numbered,
            (),
            tuple(checks),
        )
        return LocalTable(
            self.workspace.connection,
            table,
            name,
            self.workspace.graveyard,
            transactional=transactional,
        )

    def table_variable(
        self,
        name: str,
        definitions: tuple[ColumnDefinition, ...],
        constraints: tuple[ConstraintDefinition, ...],
        frame: Frame,
    ) -> LocalTable:
        """A table variable, empty."""
        parts = DefinitionBuilder(self.compilation(frame), name).parts(definitions, constraints)
        return self.local_table(
            name, parts.columns, parts.indexes, parts.checks, transactional=False
        )

    def typed_variable(self, name: str, shape: TableShape, frame: Frame) -> LocalTable:
        """A table variable of a table type, empty."""
        made = self.table_variable(name, shape.columns, shape.constraints, frame)
        made.user_type_id = shape.user_type.user_type_id
        return made

    def _index(self, builder: DefinitionBuilder, node: CreateIndex, columns: list[Column]) -> Index:
        """An index definition."""
        definition, terms = index_filter(node, columns)
        made = Index(
            0,
            node.name,
            tuple(builder.key_column_id(columns, c) for c in node.columns),
            node.descending,
            unique=node.unique,
            clustered=node.clustered,
            included_column_ids=tuple(builder.column_id(columns, c) for c in node.included),
            filter_definition=definition,
            filter=terms,
            ignore_dup_key=node.ignore_dup_key,
        )
        if made.ignore_dup_key:
            refuse_ignoring(made, builder.table, "create")
        if is_demanding(made, columns):
            require_options(self.context.options.semantics, "CREATE INDEX")
        return made

    def _create_index(self, node: CreateIndex, frame: Frame) -> None:
        if node.ignore_dup_key and not node.unique:
            raise messages.error(1916, "nonunique", "ignore_dup_key")
        if is_local_temporary(node.table[-1]):
            local = self.temporary_table(node.table[-1])
            builder = DefinitionBuilder(self.compilation(frame), local.shown)
            local.add_index(self._index(builder, node, list(local.table.columns)))
            self.workspace.local_version += 1
            return
        where = resolve_name(self.context, node.table, node.line)
        if where.database.module(where.schema, where.name) is not None:
            raise not_supported("indexes on views")
        table = where.database.table(where.schema, where.name)
        if table is None:
            raise messages.error(1088, messages.dotted(node.table), aborts=Aborts.SCOPE)
        database = where.database
        builder = DefinitionBuilder(self.compilation(frame), table.name)
        index = self._index(builder, node, list(table.columns))
        with self.context.store.statement():
            if node.drop_existing:
                table, index = self._without_existing(database, table, index)
            table = store_ddl.create_index(self.context.store, database, table, index)
            if index.clustered and node.placement is not None:
                place(self.context, database, table, node.placement)

    def _without_existing(
        self, database: Database, table: Table, index: Index
    ) -> tuple[Table, Index]:
        """WITH DROP_EXISTING: the table without the index of that name, whose id the new one gets.

        Raises:
            SqlError: 7999 when there is none; 50900 for the index of a key.
        """
        folded = index.name.casefold()
        existing = next((i for i in table.indexes if i.name.casefold() == folded), None)
        if existing is None:
            raise messages.error(7999, index.name, table.name)
        if existing.primary_key or existing.unique_constraint:
            raise not_supported("DROP_EXISTING of the index of a key")
        store = self.context.store
        self.context.engine.extension.dropping_index(
            store.connection, database, table, existing.name
        )
        if existing.clustered == index.clustered:
            index = replace(index, index_id=existing.index_id)
        return store_ddl.drop_index(store, database, table, existing.name), index

    # DROP ---------------------------------------------------------------------------------------

    def _drop(self, node: DropObject, _: Frame) -> None:
        for name in node.names:
            try:
                self._drop_one(node, name)
            except SqlError as error:
                if not (node.if_exists and error.number in {3701, 911, 15151, 208, 218}):
                    raise

    def _drop_one(self, node: DropObject, name: Name) -> None:
        store, context = self.context.store, self.context
        if node.kind == "DATABASE":
            database = context.engine.databases.get(name[-1].casefold())
            if database is None:
                raise messages.cannot_drop("database", name[-1])
            if database is context.database:
                raise messages.error(3702, name[-1])
            context.engine.drop_database(name[-1])
        elif node.kind == "SCHEMA":
            store_ddl.drop_schema(store, context.database, name[-1])
        elif node.kind == "INDEX":
            self._drop_index(name[-1], node)
        elif node.kind in _DROPPERS:
            _DROPPERS[node.kind](context, name, node.line)
        elif node.kind == "TABLE":
            self._drop_table(name, node)
        elif node.kind == "TRIGGER":
            database, trigger = find_trigger(context, name, node.line)
            store_ddl.drop_module(store, database, trigger)
        elif node.kind in _KIND_LETTERS:
            where = module_name(context, name, node.line)
            module = where.database.module(where.schema, where.name)
            if module is None or module.type not in _KIND_LETTERS[node.kind]:
                raise messages.cannot_drop(node.kind.lower(), messages.dotted(name))
            action = f"DROP {node.kind}"
            refuse_bound_change(where.database, action, module.object_id, name)
            store_ddl.drop_module(store, where.database, module)
        else:
            raise not_supported(f"DROP {node.kind}")

    def _drop_index(self, name: str, node: DropObject) -> None:
        if is_local_temporary(node.table[-1]):
            local = self.temporary_table(node.table[-1])
            if not local.drop_index(name):
                raise messages.cannot_drop("index", f"{local.shown}.{name}")
            self.workspace.local_version += 1
            return
        store = self.context.store
        database, table = stored_table(self.context, node.table, node.line)
        self.context.engine.extension.dropping_index(store.connection, database, table, name)
        store_ddl.drop_index(store, database, table, name)

    def _drop_table(self, name: Name, node: DropObject) -> None:
        if is_local_temporary(name[-1]):
            local = self.workspace.temporary.pop(name[-1].casefold(), None)
            if local is None:
                raise messages.cannot_drop("table", name[-1])
            local.drop()
            self.workspace.local_version += 1
            return
        where = resolve_name(self.context, name, node.line)
        table = where.database.table(where.schema, where.name)
        if table is None:
            raise messages.cannot_drop("table", messages.dotted(name))
        self.context.engine.extension.dropping_table(where.database, table)
        refuse_bound_change(where.database, "DROP TABLE", table.object_id, name)
        command = f"DROP TABLE {messages.dotted(name)}"
        store_ddl.drop_table(self.context.store, where.database, table, command=command)

    # Modules ------------------------------------------------------------------------------------

    def module_columns(
        self, node: CreateModule, frame: Frame, binding: Binding | None
    ) -> tuple[Column, ...]:
        """The columns of a view or of what a function returns."""
        if node.kind == "FUNCTION":
            frame = Frame(is_function=True)
            for parameter in node.parameters:
                frame.declare(parameter.name, parameter.type)
        if node.query is not None:
            compilation = self.compilation(frame)
            compilation.binding = binding
            return view_columns(compilation, node)
        made = node.returns_table
        if made is None:
            return ()
        builder = DefinitionBuilder(self.compilation(frame), node.name[-1])
        return tuple(builder.parts(made.columns, made.constraints).columns)

    def _create_module(self, node: CreateModule, frame: Frame) -> None:
        if node.kind == "TRIGGER":
            create_trigger(self.context, node)
            return
        if node.kind == "VIEW" and node.name[-1].startswith("#"):
            raise messages.error(4103, node.name[-1])
        where = module_name(self.context, node.name, node.line)
        known = where.database.module(where.schema, where.name)
        table = where.database.table(where.schema, where.name)
        if table is not None or (known is not None and node.mode == "CREATE"):
            raise messages.already_exists(name_of_its_session(where.name), node.line)
        if known is None and node.mode == "ALTER":
            raise messages.invalid_object(node.name, node.line)
        text = created_text(node)
        letters = _KIND_LETTERS[node.kind][0]
        if node.kind == "FUNCTION":
            letters = function_type(node)
            refuse_side_effects(node)
        if known is not None and known.type != letters:
            raise messages.error(2010, messages.dotted(node.name))
        parameters = type_definitions.module_parameters(where.database, node)
        if node.kind == "FUNCTION" and any(p.is_readonly for p in parameters):
            raise not_supported("table-valued parameters of functions")
        node = with_types(where.database, node)
        if known is not None:
            refuse_bound_change(where.database, "ALTER", known.object_id, node.name)
        binding = begin_binding(where.database, node)
        columns = self.module_columns(node, frame, binding)
        if binding is not None and node.body is not None:
            note_body(self.context, binding, node)
        module = store_ddl.create_module(
            self.context.store,
            where.database,
            where.database.schema_name(where.schema) or where.schema,
            where.name,
            letters,
            text,
            uses_ansi_nulls=self.context.options.ansi_nulls,
            uses_quoted_identifier=self.context.options.quoted_identifier,
        )
        if node.name[-1].startswith("#"):
            self.workspace.temporary_modules.add(module.object_id)
        put_parameters(self.context.store, where.database, module.object_id, parameters)
        references = None if binding is None else frozenset(binding.found)
        put_binding(self.context.store, where.database, module.object_id, references)
        if columns:
            put_columns(self.context.store, where.database, module.object_id, columns)


def _clustered_placement(node: CreateTable) -> Placement | None:
    """Where the clustered index of a new table lies: there lies the table."""
    of_columns = (c for column in node.columns for c in column.constraints)
    for constraint in (*node.constraints, *of_columns):
        clustered = constraint.clustered
        if constraint.placement and (clustered or (clustered is None and _is_key(constraint))):
            return constraint.placement
    return None


def _is_key(constraint: ConstraintDefinition) -> bool:
    return constraint.kind == "PRIMARY KEY"
