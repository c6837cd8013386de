"""FROM: each source as SQLite text, and its columns in the scope."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from tailrace_emulator import messages
from tailrace_emulator.catalog.functions import table_function
from tailrace_emulator.catalog.names import is_local_temporary
from tailrace_emulator.catalog.views import system_view
from tailrace_emulator.messages.errors import Aborts, not_supported
from tailrace_emulator.security.access import Securable, of_object
from tailrace_emulator.tsql.certain import known
from tailrace_emulator.tsql.compile.access import chain_of
from tailrace_emulator.tsql.compile.evaluation import argument_reader
from tailrace_emulator.tsql.compile.expressions import ExpressionCompiler
from tailrace_emulator.tsql.compile.firing import PSEUDO_TABLES, pseudo_columns
from tailrace_emulator.tsql.compile.masks import refusing_masked
from tailrace_emulator.tsql.compile.names import base_object
from tailrace_emulator.tsql.compile.pivots import pivot_query, unpivot_query
from tailrace_emulator.tsql.compile.plan import Execution
from tailrace_emulator.tsql.compile.scope import BoundSource, Scope, SourceColumn
from tailrace_emulator.tsql.compile.source_columns import (
    make_nullable,
    meta_columns,
    named_columns,
    renamed_columns,
    seen_through,
)
from tailrace_emulator.tsql.compile.source_holes import (
    FunctionHole,
    ViewHole,
    reads_columns,
    rows_call,
)
from tailrace_emulator.tsql.compile.trigger_text import PseudoTableHole
from tailrace_emulator.tsql.compile.user_functions import called, table_function_of
from tailrace_emulator.tsql.compile.values import HIDDEN, Origin, Value, converted
from tailrace_emulator.tsql.functions.table_functions import (
    TABLE_FUNCTIONS,
    CompiledTable,
    TableColumn,
)
from tailrace_emulator.tsql.functions.xml_methods import NODE, nodes_rows
from tailrace_emulator.tsql.syntax import literals
from tailrace_emulator.tsql.syntax.definition_statements import CreateModule
from tailrace_emulator.tsql.syntax.nodes import (
    ColumnName,
    DefaultMark,
    Derived,
    FunctionTable,
    Join,
    Name,
    Pivot,
    Source,
    TableName,
    Unpivot,
    Variable,
    VariableTable,
)
from tailrace_emulator.tsql.syntax.parser import parse_expression, parse_module
from tailrace_emulator.values.types import BIGINT, SqlType, StorageValue

if TYPE_CHECKING:
    from tailrace_emulator.storage.catalog_state import Module
    from tailrace_emulator.storage.engine import Database
    from tailrace_emulator.storage.model import Column, Table
    from tailrace_emulator.tsql.compile.compiler import Compilation
    from tailrace_emulator.tsql.compile.compilers import Queries
    from tailrace_emulator.tsql.compile.local_tables import LocalTable


_ARGUMENTS: Final = "arguments of a table function"


class SourceCompiler:
    """Compiles the sources of FROM.

    Attributes:
        expressions: compiles expressions in ON and in arguments.
        queries: the compiler of the query.
        changed: the table or view in FROM that the statement changes: reading it needs no
            permission of its own.
        exposes_rows: whether sources show row ids, because a change goes through a query that is
            compiled now.
    """

    def __init__(
        self, compilation: Compilation, expressions: ExpressionCompiler, queries: Queries
    ) -> None:
        self.compilation = compilation
        self.expressions = expressions
        self.queries = queries
        self.changed: object = None
        self.exposes_rows = False

    def source(self, node: Source, scope: Scope) -> str:
        """SQLite text of a source; its columns join the scope."""
        if isinstance(node, Join):
            return self._join(node, scope)
        if isinstance(node, TableName):
            return self._table_name(node, scope)
        if isinstance(node, VariableTable):
            return self._variable_table(node, scope)
        if isinstance(node, Derived):
            return self._derived(node, scope, scope.parent)
        if isinstance(node, FunctionTable):
            return self._function(node, scope, scope.parent)
        if isinstance(node, Pivot | Unpivot):
            inside = Scope(parent=scope.parent)
            self.source(node.source, inside)
            columns = [column for source in inside.sources for column in source.columns]
            made = (
                pivot_query(node, columns)
                if isinstance(node, Pivot)
                else unpivot_query(node, columns)
            )
            return self._derived(made, scope, scope.parent)
        raise not_supported(f"{type(node).__name__} in FROM")

    def _bind(
        self, scope: Scope, alias: str, key: str, columns: list[SourceColumn], path: Name = ()
    ) -> None:
        """Adds a source to the scope.

        Raises:
            SqlError: 1011 or 1013 when its name is taken.
        """
        folded = alias.casefold()
        if any(s.alias.casefold() == folded and s.path == path for s in scope.sources):
            raise messages.error(1013, alias, alias)
        scope.sources.append(BoundSource(alias, columns, key, path))

    # Joins --------------------------------------------------------------------------------------

    def _join(self, node: Join, scope: Scope) -> str:
        """A join; SQLite has all five kinds."""
        first = len(scope.sources)
        left = self.source(node.left, scope)
        middle = len(scope.sources)
        if node.kind.endswith("APPLY"):
            text = self._apply(node, left, scope)
            if node.kind == "OUTER APPLY":
                make_nullable(scope.sources[middle:])
            return text
        right = self.source(node.right, scope)
        if node.kind in {"LEFT", "FULL"}:
            make_nullable(scope.sources[middle:])
        if node.kind in {"RIGHT", "FULL"}:
            make_nullable(scope.sources[first:middle])
        if isinstance(node.right, Join):
            right = f"({right})"
        if node.condition is None:
            return f"{left} CROSS JOIN {right}" if node.kind != "CROSS" else f"{left} JOIN {right}"
        condition = self.expressions.condition(node.condition, scope)
        return f"{left} {node.kind} JOIN {right} ON {condition}"

    def _apply(self, node: Join, left: str, scope: Scope) -> str:
        """APPLY: a plain join when the right side stands alone, else rows carried as JSON."""
        outer = node.kind == "OUTER APPLY"
        if isinstance(node.right, Derived):
            outside = Scope(parent=scope.parent, sources=list(scope.sources))
            text, columns = self.queries.derived(node.right.query, outside)
            alias, names = node.right.alias, node.right.column_names
        elif isinstance(node.right, FunctionTable) and (
            found := table_function_of(self.compilation, node.right)
        ):
            outside = Scope(parent=scope.parent, sources=list(scope.sources))
            text, columns = called(self, found, node.right, outside)
            alias, names = node.right.alias or node.right.name[-1], node.right.column_names
        elif isinstance(node.right, FunctionTable):
            outside = Scope(parent=scope.parent, sources=list(scope.sources))
            right = self._function(node.right, scope, outside)
            return f"{left} {'LEFT JOIN' if outer else 'JOIN'} {right}" + (" ON 1" if outer else "")
        else:
            raise not_supported("APPLY to a table or join")
        key = self.compilation.alias()
        packed = ", ".join(f"t_pack(v{n})" for n in range(len(columns)))
        rows = f"(SELECT json_group_array(json_array({packed})) FROM ({text}))"
        bound = [
            replace(column, sql=f"t_unpack({key}.value, {n})") for n, column in enumerate(columns)
        ]
        self._bind(scope, alias, key, named_columns(bound, names, alias))
        return f"{left} {'LEFT JOIN' if outer else 'JOIN'} json_each({rows}) AS {key}" + (
            " ON 1" if outer else ""
        )

    # Tables -------------------------------------------------------------------------------------

    def _table_name(self, node: TableName, scope: Scope) -> str:
        """A CTE, local table, stored table, system view or view."""
        name = node.name
        alias = node.alias or name[-1]
        key = self.compilation.alias()
        if len(name) == 1:
            common = self.queries.common_table(name[0])
            if common is not None:
                text, columns = common
                self._bind_values(scope, alias, key, columns)
                scope.sources[-1].table = text
                return f"{text} AS {key}"
            firing = self.compilation.frame.trigger
            if firing is not None and name[0].casefold() in PSEUDO_TABLES:
                return self._pseudo_table(name[0].casefold(), firing.table, scope, alias, key)
        if is_local_temporary(name[-1]):
            return self._local(self._temporary(name, node.line), scope, alias, key, node)
        where = base_object(self.compilation.context, name, node.line)
        self.compilation.depend_on(self.compilation.context.database)
        self.compilation.depend_on(where.database)
        if self.compilation.binding is not None:
            self.compilation.binding.note(name, where)
        path: Name = () if node.alias else (where.database.name, where.schema)
        table = where.database.table(where.schema, where.name)
        if table is not None:
            columns_of = self._exposed(self.table_columns(table, key), key, node)
            self._check_read(of_object(where.database, table), table, columns_of, node)
            if self.compilation.binding is not None:
                self.compilation.binding.watch(table, columns_of)
            self._bind(scope, alias, key, columns_of, path)
            scope.sources[-1].stored = (where.database.database_id, table.object_id)
            return f"{self.compilation.table_hole(table, node.hints)} AS {key}"
        view = system_view(self.compilation.context, where.database, where.schema, where.name)
        if view is not None:
            bound = meta_columns(view.columns, key)
            self._bind(scope, alias, key, bound, path)
            return f"{self.compilation.hole(ViewHole(view, where.database))} AS {key}"
        module = where.database.module(where.schema, where.name)
        if module is not None and module.type == "V":
            is_target = node is self.changed
            refused = self.compilation.access.read_view(where.database, module, is_target=is_target)
            text, values = self._view(module, where.database)
            self._bind_values(scope, alias, key, values, path)
            if refused is not None:
                for column in scope.sources[-1].columns:
                    column.check = None if column.name.startswith(HIDDEN) else refused
            return f"({text}) AS {key}"
        raise messages.invalid_object(name, node.line)

    def _pseudo_table(self, name: str, table: Table, scope: Scope, alias: str, key: str) -> str:
        """The table inserted or deleted of a trigger."""
        shaped = replace(table, columns=pseudo_columns(table))
        self._bind(scope, alias, key, self.table_columns(shaped, key))
        names = tuple(column.sqlite_name for column in shaped.columns)
        return f"{self.compilation.hole(PseudoTableHole(name, names))} AS {key}"

    def _check_read(
        self, securable: Securable, table: Table, columns: list[SourceColumn], node: TableName
    ) -> None:
        """Refuses a table that may not be read; marks columns that may not, or are masked."""
        is_target = node is self.changed
        masks = self.compilation.access.masked(securable, table.columns)
        for column in columns if masks else ():
            column.mask = masks.get(column.name, "")
        checks = self.compilation.access.read(securable, table.columns, is_target=is_target)
        if checks:
            for column in columns:
                column.check = checks.get(column.name)

    def _view(self, module: Module, database: Database) -> tuple[str, list[Value]]:
        """A view's query, compiled in its own database."""
        text = module.text
        statement = parse_module(text, module.uses_quoted_identifier)
        if not isinstance(statement, CreateModule):
            raise messages.syntax(text[:20], 1)
        query = known(statement.query, "query of a view")
        if self.exposes_rows and statement.has_check_option:
            self.compilation.checked_views.append((database, module))
        access = self.compilation.access
        outer_chain, access.chain = access.chain, chain_of(database, module)
        binding, self.compilation.binding = self.compilation.binding, None
        try:
            with (
                self.compilation.inside(database),
                self.compilation.under(ansi_nulls=module.uses_ansi_nulls),
            ):
                compiled, values = self.queries.derived(query, None)
        finally:
            self.compilation.binding = binding
            access.chain = outer_chain
        if self.exposes_rows:
            is_elsewhere = database is not self.compilation.context.database
            values = [
                seen_through(v, (database, module), is_elsewhere=is_elsewhere) for v in values
            ]
        if statement.column_names:
            values = [
                replace(v, name=n) for v, n in zip(values, statement.column_names, strict=False)
            ] + values[len(statement.column_names) :]
        return compiled, values

    def table_columns(self, table: Table, key: str) -> list[SourceColumn]:
        """The columns of a stored table under a SQLite alias."""
        columns: list[SourceColumn] = []
        for column in table.columns:
            if column.computed is not None and not column.persisted:
                make = self._computed(column, table, key, columns)
                columns.append(
                    SourceColumn(column.name, None, column.nullable, "", computed=True, make=make)
                )
                continue
            columns.append(
                SourceColumn(
                    column.name,
                    column.type,
                    column.nullable,
                    f"{key}.{column.sqlite_name}",
                    identity=column.identity is not None,
                    computed=column.computed is not None,
                    stored=True,
                )
            )
        return columns

    def _exposed(
        self, columns: list[SourceColumn], key: str, node: TableName | VariableTable
    ) -> list[SourceColumn]:
        """While a change goes through a query: where each column comes from, and the row id."""
        if not self.exposes_rows:
            return columns
        rid = f"{HIDDEN}{key}"
        for column in columns:
            column.origin = Origin(rid, node, column.name)
        hidden = SourceColumn(rid, BIGINT, False, f"{key}.rid", origin=Origin(rid, node, ""))
        return [*columns, hidden]

    def _computed(
        self, column: Column, table: Table, key: str, columns: list[SourceColumn]
    ) -> Callable[[], Value]:
        """Compiles a computed column over its own row when it is first named."""

        def make() -> Value:
            inner = Scope(sources=[BoundSource(table.name, columns, key)])
            with self.compilation.under(ansi_nulls=True):
                value = self.expressions.value(parse_expression(column.computed or ""), inner)
            return converted(value, column.type, explicit=True)

        return make

    def _temporary(self, name: Name, line: int) -> LocalTable:
        """A #temp table."""
        table = self.compilation.workspace.temporary.get(name[-1].casefold())
        self.compilation.depend_on_local_tables()
        if table is None:
            raise messages.invalid_object((name[-1],), line)
        return table

    def _variable_table(self, node: VariableTable, scope: Scope) -> str:
        """A table variable."""
        table = self.compilation.frame.tables.get(node.name.casefold())
        self.compilation.depend_on_local_tables()
        if table is None:
            raise messages.undeclared_table_variable(node.name)
        key = self.compilation.alias()
        return self._local(table, scope, node.alias or node.name, key, node)

    def _local(
        self,
        table: LocalTable,
        scope: Scope,
        alias: str,
        key: str,
        node: TableName | VariableTable,
    ) -> str:
        """A table of the session's own."""
        columns = self._exposed(self.table_columns(table.table, key), key, node)
        self._bind(scope, alias, key, columns)
        return f"{table.source} AS {key}"

    # Subqueries and functions -------------------------------------------------------------------

    def _derived(self, node: Derived, scope: Scope, parent: Scope | None) -> str:
        """A subquery."""
        text, columns = self.queries.derived(node.query, parent)
        key = self.compilation.alias()
        bound = [replace(c, sql=f"{key}.v{n}") for n, c in enumerate(columns)]
        self._bind(scope, node.alias, key, named_columns(bound, node.column_names, node.alias))
        return f"({text}) AS {key}"

    def _bind_values(
        self, scope: Scope, alias: str, key: str, columns: list[Value], path: Name = ()
    ) -> None:
        """Columns v0, v1, ... of a CTE or view."""
        bound = [replace(c, sql=f"{key}.v{n}") for n, c in enumerate(columns)]
        self._bind(scope, alias, key, named_columns(bound, (), alias), path)

    def _function(self, node: FunctionTable, scope: Scope, parent: Scope | None) -> str:
        """A table function: built in, or of the catalog."""
        key = self.compilation.alias()
        alias = node.alias or node.name[-1]
        given = [literals.NULL if isinstance(a, DefaultMark) else a for a in node.arguments]
        if node.name[-1] == "nodes" and len(node.name) > 1:
            return self._xml_nodes(node, scope, key, alias, Scope(parent=parent))
        builder = TABLE_FUNCTIONS.get(node.name[0].upper()) if len(node.name) == 1 else None
        if builder is not None:
            with refusing_masked(self.compilation, _ARGUMENTS):
                values = [self.expressions.value(a, Scope(parent=parent)) for a in given]
            return self._rows_function(
                builder(self.expressions, node, values), node, scope, key, alias
            )
        found = table_function_of(self.compilation, node)
        if found is not None:
            text, own = called(self, found, node, Scope(parent=parent))
            bound = [replace(c, sql=f"{key}.v{n}") for n, c in enumerate(own)]
            self._bind(scope, alias, key, named_columns(bound, node.column_names, alias))
            return f"({text}) AS {key}"
        where = base_object(self.compilation.context, node.name, node.line)
        self.compilation.depend_on(where.database)
        context = self.compilation.context
        if where.database is not context.database:
            context = replace(context, database=where.database)
        function = table_function(context, where.database, where.schema, where.name)
        if function is None:
            raise messages.invalid_object(node.name, node.line)
        if len(node.arguments) != len(function.parameters):
            insufficient = len(node.arguments) < len(function.parameters)
            shown = messages.dotted(node.name)
            if insufficient:
                raise messages.error(313, f"{shown} ... ", line=node.line)
            raise messages.error(8144, shown, line=node.line, state=1, aborts=Aborts.SCOPE)
        with refusing_masked(self.compilation, _ARGUMENTS):
            values = [
                converted(self.expressions.value(a, Scope(parent=parent)), parameter, explicit=True)
                for a, parameter in zip(given, function.parameters, strict=True)
            ]
        if reads_columns(values):
            made = tuple(TableColumn(c.name, c.type, c.nullable) for c in function.columns)
            text = self._rows_of(where.database, where.schema, where.name, values)
            return self._rows_function(CompiledTable(text, made), node, scope, key, alias)
        arguments = self.argument_reader(values)
        columns = meta_columns(function.columns, key)
        changes = function.encoded_table
        if changes is not None:  # a query function shows what its change table shows
            masks = self.compilation.access.masked(
                of_object(where.database, changes), changes.columns
            )
            for column in columns:
                column.mask = masks.get(column.name, "")
        self._bind(scope, alias, key, renamed_columns(columns, node.column_names))
        hole = self.compilation.hole(FunctionHole(function, where.database, arguments))
        return f"{hole} AS {key}"

    def argument_reader(
        self, values: list[Value]
    ) -> Callable[[Execution], tuple[StorageValue, ...]]:
        """Evaluates the arguments of a table function before the statement runs."""
        return argument_reader(self.compilation, values)

    def _rows_of(self, database: Database, schema: str, name: str, values: list[Value]) -> str:
        """The rows of a table function of the catalog as JSON, for arguments of each row."""
        workspace = self.compilation.workspace
        number = workspace.own_function(
            ("rows", database, schema, name), rows_call(workspace, database, schema, name)
        )
        return f"t_own({', '.join([str(number), *(value.sql for value in values)])})"

    def _xml_nodes(
        self, node: FunctionTable, scope: Scope, key: str, alias: str, outside: Scope
    ) -> str:
        """``x.nodes('path') AS T(c)``."""
        first = node.name[0]
        operand = Variable(first) if first[0] == "@" else ColumnName(node.name[:-1], node.line)
        with refusing_masked(self.compilation, _ARGUMENTS):
            rows = nodes_rows(self.expressions.value(operand, outside), node.arguments)
        name = node.column_names[0] if node.column_names else "c"
        text = f"t_unpack({key}.value, 0)"
        self._bind(scope, alias, key, [SourceColumn(name, SqlType("xml"), True, text, form=NODE)])
        return f"json_each({rows}) AS {key}"

    def _rows_function(
        self, table: CompiledTable, node: FunctionTable, scope: Scope, key: str, alias: str
    ) -> str:
        """A built-in table function: a JSON array of rows."""
        columns = []
        for n, column in enumerate(table.columns):
            text = f"t_unpack({key}.value, {n})"
            if column.source is not None:
                value = Value(text, column.source)
                text = converted(value, column.type, explicit=True).sql
            columns.append(SourceColumn(column.name, column.type, column.nullable, text))
        self._bind(scope, alias, key, renamed_columns(columns, node.column_names))
        return f"json_each({table.text}) AS {key}"
