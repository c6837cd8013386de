"""ALTER TABLE: columns and constraints of a table that exists."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from tailrace_emulator import messages
from tailrace_emulator.catalog.names import is_local_temporary
from tailrace_emulator.messages.errors import Aborts, SqlError, not_supported
from tailrace_emulator.storage import ddl as store_ddl
from tailrace_emulator.storage.model import Check, Column, ForeignKey, Index, Table
from tailrace_emulator.tsql.certain import known
from tailrace_emulator.tsql.compile.compiler import Compilation
from tailrace_emulator.tsql.compile.names import stored_table
from tailrace_emulator.tsql.compile.plan import Execution
from tailrace_emulator.tsql.compile.queries import QueryCompiler
from tailrace_emulator.tsql.compile.rows import columns_of, compile_defaults, row_program
from tailrace_emulator.tsql.compile.scope import Scope
from tailrace_emulator.tsql.compile.targets import StoredTarget
from tailrace_emulator.tsql.conversions import assigner, check_allowed
from tailrace_emulator.tsql.definition.definitions import (
    DefinitionBuilder,
    generated_name,
    normalised,
)
from tailrace_emulator.tsql.definition.foreign_key_rules import checked_foreign_key, referencing
from tailrace_emulator.tsql.definition.maintenance import statistics_on
from tailrace_emulator.tsql.definition.schema_binding import bound_users
from tailrace_emulator.tsql.functions.masking import read_mask
from tailrace_emulator.tsql.syntax.definition_statements import (
    AlterAdd,
    AlterColumn,
    AlterDrop,
    AlterMask,
)
from tailrace_emulator.tsql.syntax.parser import parse_expression
from tailrace_emulator.tsql.syntax.statements import ConstraintDefinition
from tailrace_emulator.tsql.syntax.switches import SwitchConstraints

if TYPE_CHECKING:
    from tailrace_emulator.catalog.context import SessionContext
    from tailrace_emulator.storage.engine import Database
    from tailrace_emulator.tsql.compile.frames import Frame
    from tailrace_emulator.tsql.compile.local_tables import LocalTable
    from tailrace_emulator.tsql.compile.workspace import Workspace
    from tailrace_emulator.tsql.syntax.nodes import Name


class TableAlterer:
    """Runs ALTER TABLE statements of one session."""

    def __init__(self, context: SessionContext, workspace: Workspace) -> None:
        self.context = context
        self.workspace = workspace

    def compilation(self, frame: Frame) -> Compilation:
        """A compilation in the session's database."""
        return Compilation(self.context, self.workspace, frame)

    def _altered(self, name: Name, line: int) -> tuple[Database, Table]:
        """The table that a statement alters.

        Raises:
            SqlError: 4902 when there is none.
        """
        try:
            return stored_table(self.context, name, line)
        except SqlError as error:
            if error.number != 208:
                raise
            raise messages.error(4902, messages.dotted(name), line=line) from error

    def alter_add(self, node: AlterAdd, frame: Frame) -> None:
        """ALTER TABLE ADD."""
        if is_local_temporary(node.table[-1]):
            self._alter_temporary_add(node, frame)
            return
        database, table = self._altered(node.table, node.line)
        self.context.engine.extension.altering(table)
        builder = DefinitionBuilder(self.compilation(frame), table.name, database)
        store = self.context.store
        constraints = [*node.constraints]
        for definition in node.columns:
            constraints += definition.constraints
            in_key = any(c.kind == "PRIMARY KEY" for c in definition.constraints)
            column = builder.column(definition, table.columns, 0, in_key=in_key)
            value = None
            if column.default is not None and (definition.with_values or not column.nullable):
                value = self._default_value(column, table, database, frame)
            table = store_ddl.add_columns(
                store,
                database,
                table,
                [column],
                values={column.name: value} if value is not None else None,
                command=node.text,
            )
        for constraint in constraints:
            table = self._add_constraint(builder, constraint, database, table, node, frame)

    # Temporary tables ---------------------------------------------------------------------------

    def temporary_table(self, name: str, number: int = 1088) -> LocalTable:
        """The #temporary table of that name, to be changed.

        Raises:
            SqlError: 1088 or 4902 when there is none; 50900 in a transaction that may undo it.
        """
        found = self.workspace.temporary.get(name.casefold())
        if found is None:
            raise messages.error(number, name, state=1, aborts=Aborts.SCOPE)
        if self.context.store.trancount and not found.is_new:
            raise not_supported("changing a temporary table's definition in a transaction")
        return found

    def _alter_temporary_add(self, node: AlterAdd, frame: Frame) -> None:
        """Columns, and keys; other constraints are refused by name."""
        local = self.temporary_table(node.table[-1], 4902)
        builder = DefinitionBuilder(self.compilation(frame), local.shown)
        constraints = [*node.constraints]
        for definition in node.columns:
            constraints += definition.constraints
            column = builder.column(definition, local.table.columns, 0)
            if column.computed is not None or column.identity is not None:
                raise not_supported("adding an identity or computed column to a temporary table")
            value = None
            if column.default is not None and (definition.with_values or not column.nullable):
                value = self._default_value(column, local.table, self.context.database, frame)
            rows = local.connection.execute(f"SELECT 1 FROM {local.source} LIMIT 1").fetchall()
            if rows and value is None and not column.nullable:
                raise messages.error(4901, column.name, local.shown)
            local.add_column(column, value)
        for constraint in constraints:
            free = not any(index.clustered for index in local.table.indexes)
            made = builder.constraint(constraint, local.table.columns, clustered_free=free)
            if not isinstance(made, Index):
                raise not_supported(f"adding a {constraint.kind} to a temporary table")
            local.add_index(made)
        self.workspace.local_version += 1

    def _alter_temporary_drop(self, node: AlterDrop) -> None:
        local = self.temporary_table(node.table[-1], 4902)
        for kind, name in node.items:
            found = local.drop_column(name) if kind == "COLUMN" else local.drop_index(name)
            if not found and not node.if_exists:
                if kind == "COLUMN":
                    raise messages.error(4924, "ALTER TABLE DROP COLUMN", name, local.shown)
                raise messages.error(3728, name)
        self.workspace.local_version += 1

    # Stored tables ------------------------------------------------------------------------------

    def _default_value(self, column: Column, table: Table, database: Any, frame: Frame) -> Any:
        """What existing rows get of a new column's default."""
        shaped = replace(table, columns=(*table.columns, column))
        target = StoredTarget(shaped, database)
        position = len(table.columns)
        defaults = compile_defaults(self.compilation(frame), target, [position])
        execution = Execution(self.context, self.workspace, frame)
        return defaults.values(execution)[position]

    def _add_constraint(
        self,
        builder: DefinitionBuilder,
        constraint: ConstraintDefinition,
        database: Any,
        table: Table,
        node: AlterAdd,
        frame: Frame,
    ) -> Table:
        """ADD CONSTRAINT."""
        store, command = self.context.store, node.text
        if constraint.kind == "DEFAULT":
            column_id = builder.column_id(table.columns, constraint.columns[0])
            name = constraint.name or generated_name("DF", table.name, constraint.columns[0])
            text = normalised(constraint.expression)
            expressions = QueryCompiler(self.compilation(frame)).expressions
            expressions.value(parse_expression(text), Scope())
            return store_ddl.set_default(
                store, database, table, column_id, name, text, command=command
            )
        clustered_free = not any(i.clustered for i in table.indexes)
        made = builder.constraint(constraint, table.columns, clustered_free=clustered_free)
        if isinstance(made, Index) and made.primary_key:
            nullable = [c for c in table.columns if c.column_id in made.column_ids and c.nullable]
            if nullable:
                raise messages.error(8111, table.name)
        if isinstance(made, ForeignKey):
            shown = messages.dotted(constraint.referenced)
            made = checked_foreign_key(database, referencing(table), made, shown)
        if not node.validate and not isinstance(made, Index):
            made = replace(made, is_not_trusted=True)
        elif isinstance(made, Check):
            self._verify_check(made, table, database, frame)
        return store_ddl.add_constraint(store, database, table, made, command=command)

    def switch_constraints(self, node: SwitchConstraints, frame: Frame) -> None:
        """ALTER TABLE CHECK or NOCHECK CONSTRAINT.

        Raises:
            SqlError: 4917 for a constraint that is not there, 547 where rows are verified.
        """
        database, table = self._altered(node.table, node.line)
        known_names = [k.name for k in table.foreign_keys] + [c.name for c in table.checks]
        folded = {name.casefold() for name in known_names}
        for name in node.names:
            if name.casefold() not in folded:
                raise messages.error(4917, name)
        names = node.names or tuple(known_names)
        wanted = {name.casefold() for name in names}
        if node.validate and not node.disable:
            for check in table.checks:
                if check.name.casefold() in wanted:
                    enabled = replace(check, is_disabled=False)
                    self._verify_check(enabled, table, database, frame)
        store_ddl.switch_constraints(
            self.context.store,
            database,
            table,
            names,
            disable=node.disable,
            trusted=node.validate,
            command=node.text,
        )

    def _verify_check(self, check: Check, table: Table, database: Any, frame: Frame) -> None:
        """Existing rows must satisfy a new CHECK."""
        shaped = replace(table, checks=(check,), columns=table.columns)
        target = StoredTarget(shaped, database)
        program = known(row_program(self.compilation(frame), target), "new CHECK constraint")
        columns = ", ".join(c.sqlite_name for c in table.columns)
        source = self.context.store.reads.source(table)
        execution = Execution(self.context, self.workspace, frame)
        rows = self.workspace.connection.execute(f"SELECT {columns} FROM {source}").fetchall()
        for row in rows:
            program.run(execution, row, "ALTER TABLE", target)

    def alter_drop(self, node: AlterDrop, _: Frame) -> None:
        """ALTER TABLE DROP."""
        if is_local_temporary(node.table[-1]):
            self._alter_temporary_drop(node)
            return
        database, table = self._altered(node.table, node.line)
        self.context.engine.extension.altering(table)
        store = self.context.store
        for kind, name in node.items:
            try:
                if kind == "COLUMN":
                    self._refuse_used_column(database, table, name)
                    table = store_ddl.drop_column(store, database, table, name, command=node.text)
                else:
                    self.context.engine.extension.dropping_index(
                        store.connection, database, table, name
                    )
                    table = store_ddl.drop_constraint(
                        store, database, table, name, command=node.text
                    )
            except SqlError as error:
                if not (node.if_exists and error.number in {4924, 3728}):
                    raise

    def _refuse_used_column(self, database: Database, table: Table, name: str) -> None:
        """A column that a CHECK or computed column names cannot go."""
        folded = name.casefold()
        users = [(c.name, c.expression) for c in table.checks]
        users += [(c.name, c.computed) for c in table.columns if c.computed is not None]
        for user, text in users:
            if folded in {n.casefold() for n in _names_in(parse_expression(text))}:
                raise messages.error(5074, "object", user, "column", name)
        column = table.column(name)
        if column is None:
            return
        for user in bound_users(database, table, column):
            raise messages.error(5074, "object", user, "column", name)
        for user in statistics_on(database, table, column):
            raise messages.error(5074, "statistics", user, "column", name)

    def alter_column(self, node: AlterColumn, frame: Frame) -> None:
        """ALTER TABLE ALTER COLUMN."""
        if is_local_temporary(node.table[-1]):
            raise not_supported("ALTER COLUMN of a temporary table")
        database, table = self._altered(node.table, node.line)
        definition = node.column
        old = table.column(definition.name)
        if old is None:
            raise messages.error(4924, "ALTER TABLE ALTER COLUMN", definition.name, table.name)
        self.context.engine.extension.altering(table, old)
        builder = DefinitionBuilder(self.compilation(frame), table.name)
        made = builder.column(definition, table.columns, old.column_id)
        nullable = True if definition.nullable is None else definition.nullable
        self._refuse_alter(database, table, old, replace(made, nullable=nullable))
        if old.mask and not made.mask:
            raise not_supported("ALTER COLUMN of a masked column without MASKED WITH")
        new = replace(
            old,
            type=made.type,
            nullable=nullable,
            user_type_id=made.user_type_id,
            mask=made.mask,
        )
        convert = None
        if old.type != made.type:
            check_allowed(old.type, made.type, explicit=False)
            shown = f"{database.name}.{table.schema}.{table.name}"
            conversion = assigner(old.type, made.type, shown, old.name)
            if conversion is not None:
                convert = _null_through(conversion)
        store_ddl.alter_column(
            self.context.store, database, table, old.column_id, new, convert, command=node.text
        )

    def alter_mask(self, node: AlterMask, _frame: Frame) -> None:
        """ALTER TABLE ALTER COLUMN .. ADD MASKED or DROP MASKED.

        https://learn.microsoft.com/sql/relational-databases/security/dynamic-data-masking: "it
        can't be performed on a column with dependencies". Inferred: an index on a change table is
        none, because sys.sp_cdc_vupgrade masks columns of change tables.
        """
        if is_local_temporary(node.table[-1]):
            raise not_supported("a mask on a column of a temporary table")
        database, table = self._altered(node.table, node.line)
        old = table.column(node.column)
        if old is None:
            raise messages.error(4924, "ALTER TABLE ALTER COLUMN", node.column, table.name)
        self.context.engine.extension.altering(table, old)
        if node.mask is None:
            if not old.mask:
                raise messages.error(16007, old.name)
            new = replace(old, mask="")
        else:
            if old.computed is not None:
                raise messages.error(4928, old.name, "COMPUTED")
            new = replace(old, mask=read_mask(node.mask, old.name, old.type).text)
            indexes = [] if table.is_ms_shipped else table.indexes
            users = [
                ("object" if i.primary_key or i.unique_constraint else "index", i.name)
                for i in indexes
                if old.column_id in i.used_column_ids
            ]
            users += [("object", name) for name in bound_users(database, table, old)]
            users += [("column", name) for name in _computed_of(table, old)]
            if users:
                raise messages.error(5074, *users[0], "column", old.name)
        store_ddl.alter_column(
            self.context.store, database, table, old.column_id, new, None, command=node.text
        )

    def _refuse_alter(self, database: Database, table: Table, old: Column, new: Column) -> None:
        """Columns whose type cannot change."""
        if old.computed is not None or old.type.name == "timestamp":
            kind = "COMPUTED" if old.computed is not None else "timestamp"
            raise messages.error(4928, old.name, kind)
        if new.type == old.type and new.nullable == old.nullable:
            return
        grows = (
            new.type.name == old.type.name
            and new.type.name in {"varchar", "nvarchar", "varbinary"}
            and (new.type.length >= old.type.length or new.type.length == -1)
        )
        users = [
            ("object" if i.primary_key or i.unique_constraint else "index", i.name)
            for i in table.indexes
            if old.column_id in i.column_ids
        ]
        users += [("statistics", name) for name in statistics_on(database, table, old)]
        if new.nullable == old.nullable and grows:
            users = []
        users += [("object", name) for name in bound_users(database, table, old)]
        if new.type != old.type and not grows:
            keys = [k.name for k in table.foreign_keys if old.column_id in k.column_ids]
            users += [("object", name) for name in keys]
        if users:
            raise messages.error(5074, *users[0], "column", old.name)


def _null_through(conversion: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """NULL stays NULL."""
    return lambda value: None if value is None else conversion(value)


def _computed_of(table: Table, column: Column) -> Iterator[str]:
    """Names of the computed columns over a column."""
    folded = column.name.casefold()
    for other in table.columns:
        names = _names_in(parse_expression(other.computed)) if other.computed is not None else ()
        if folded in {name.casefold() for name in names}:
            yield other.name


def _names_in(node: Any) -> list[str]:
    """Column names in an expression."""
    return list(columns_of(node))
