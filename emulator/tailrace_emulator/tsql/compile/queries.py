"""SELECT to SQLite: a query names its columns v0, v1, ...; names and types are next to the text."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from tailrace_emulator import messages
from tailrace_emulator.messages.errors import not_supported
from tailrace_emulator.tsql.certain import known
from tailrace_emulator.tsql.compile import types_of
from tailrace_emulator.tsql.compile.common_tables import (
    matched_columns,
    mentions_table,
    renamed_values,
)
from tailrace_emulator.tsql.compile.compiler import Compilation
from tailrace_emulator.tsql.compile.expressions import ExpressionCompiler
from tailrace_emulator.tsql.compile.for_clause import compile_for, streamed
from tailrace_emulator.tsql.compile.incomparable import (
    check_distinct,
    check_sorted,
    check_united,
)
from tailrace_emulator.tsql.compile.masks import mask_of, masked_query, refusing_masked
from tailrace_emulator.tsql.compile.scope import Clause, Scope, SourceColumn
from tailrace_emulator.tsql.compile.select_core import CompiledQuery, Core, Limits, ordering
from tailrace_emulator.tsql.compile.set_operations import (
    chain,
    joined,
    united_column,
    united_rows,
    unqualified,
)
from tailrace_emulator.tsql.compile.sources import SourceCompiler
from tailrace_emulator.tsql.compile.through import is_updatable
from tailrace_emulator.tsql.compile.values import Value, converted
from tailrace_emulator.tsql.functions.aggregates import contains_aggregate
from tailrace_emulator.tsql.functions.session import compile_call, compile_global
from tailrace_emulator.tsql.syntax.nodes import (
    Call,
    ColumnName,
    CommonTable,
    Expression,
    Literal,
    OrderItem,
    Query,
    Select,
    SelectItem,
    SetOperation,
    Star,
    Top,
    ValueRows,
)
from tailrace_emulator.values.types import BIGINT, FLOAT, INT, SqlType


class QueryCompiler:
    """Compiles whole queries.

    Attributes:
        expressions: compiles its expressions and conditions.
        sources: compiles the sources in FROM.
    """

    def __init__(
        self, compilation: Compilation, variable: Callable[[str], Value] | None = None
    ) -> None:
        """Begin.

        Args:
            variable: reads a variable; None for the value that it has before the statement.
        """
        self.compilation = compilation
        self.expressions = ExpressionCompiler(compilation, self, variable)
        self.sources = SourceCompiler(compilation, self.expressions, self)
        self._common: list[dict[str, tuple[str, list[Value]]]] = []

    # What its parts take from it -----------------------------------------------------------------

    def call(self, node: Call, scope: Scope) -> Value:
        """A function call."""
        return compile_call(self.expressions, node, scope)

    def global_variable(self, name: str) -> Value:
        """An @@ variable."""
        return compile_global(self.expressions, name)

    def subquery(self, query: Query, scope: Scope) -> tuple[str, list[Value]]:
        """A subquery in an expression."""
        exposes, self.sources.exposes_rows = self.sources.exposes_rows, False
        compiled = self.query(query, replace(scope, grouped=None))
        self.sources.exposes_rows = exposes
        self.compilation.uses_masked |= any(column.mask for column in compiled.columns)
        return compiled.text, compiled.columns

    def derived(self, query: Query, parent: Scope | None) -> tuple[str, list[Value]]:
        """A subquery in FROM."""
        compiled = self.query(query, parent)
        return compiled.text, compiled.columns

    def elsewhere(self, query: Query) -> tuple[str, list[Value]]:
        """A query to which no CTE of this one is in sight."""
        compiled = QueryCompiler(self.compilation).query(query)
        return compiled.text, compiled.columns

    def common_table(self, name: str) -> tuple[str, list[Value]] | None:
        """A CTE in sight."""
        folded = name.casefold()
        for tables in reversed(self._common):
            if folded in tables:
                return tables[folded]
        return None

    # Queries ------------------------------------------------------------------------------------

    def query(self, query: Query, parent: Scope | None = None) -> CompiledQuery:
        """A query expression.

        Args:
            parent: scope of the query around it, for correlated names.
        """
        outer, self.compilation.uses_masked = self.compilation.uses_masked, False
        prefix = self.enter_common_tables(query.common_tables)
        try:
            limits = Limits(None, query.offset, query.fetch)
            body = query.body
            if isinstance(body, Select):
                compiled = self._select(body, query.order_by, limits, parent)
            elif isinstance(body, SetOperation):
                compiled = self._ordered(
                    self._set_operation(body, parent), query.order_by, limits, parent
                )
            elif isinstance(body, ValueRows):
                compiled = self._value_rows(body, parent)
            else:
                raise not_supported(type(body).__name__)
            if query.for_clause is not None:
                compiled = masked_query(compiled)
                text, column = compile_for(
                    self.expressions, query, query.for_clause, compiled.text, compiled.columns
                )
                compiled = CompiledQuery(text, [column], True)
        finally:
            self.leave_common_tables(query.common_tables)
            self.compilation.uses_masked = outer
        return replace(compiled, text=prefix + compiled.text) if prefix else compiled

    def statement(self, query: Query) -> CompiledQuery:
        """A query whose rows go to the client."""
        compiled = self.query(query)
        if query.for_clause is None:
            return masked_query(compiled)
        text, column = streamed(query.for_clause, compiled.text, compiled.columns[0])
        return CompiledQuery(text, [column], True)

    def enter_common_tables(self, tables: tuple[CommonTable, ...]) -> str:
        """Brings CTEs into sight; returns the WITH clause, or nothing."""
        if not tables:
            return ""
        visible: dict[str, tuple[str, list[Value]]] = {}
        self._common.append(visible)
        parts, recursive = [], False
        for table in tables:
            text, is_recursive = self._common_table(table, visible)
            recursive = recursive or is_recursive
            parts.append(text)
        return f"WITH {'RECURSIVE ' if recursive else ''}{', '.join(parts)} "

    def leave_common_tables(self, tables: tuple[CommonTable, ...]) -> None:
        """Puts CTEs out of sight again."""
        if tables:
            self._common.pop()

    def _common_table(
        self, table: CommonTable, visible: dict[str, tuple[str, list[Value]]]
    ) -> tuple[str, bool]:
        """One CTE; recursive when its UNION ALL names itself on the right."""
        key = self.compilation.alias("w")
        body = table.query.body
        if isinstance(body, SetOperation) and mentions_table(body.right, table.name):
            return self._recursive_table(key, body, table, visible), True
        compiled = self.query(table.query)
        visible[table.name.casefold()] = (key, renamed_values(compiled.columns, table))
        names = ", ".join(f"v{n}" for n in range(len(compiled.columns)))
        return f"{key}({names}) AS ({compiled.text})", False

    def _recursive_table(
        self,
        key: str,
        body: SetOperation,
        table: CommonTable,
        visible: dict[str, tuple[str, list[Value]]],
    ) -> str:
        """A CTE whose right side names itself.

        A hidden column counts the depth, so that MAXRECURSION is kept.
        """
        if body.operator != "UNION ALL":
            raise messages.recursion_without_union_all(table.name)
        if mentions_table(body.left, table.name):
            raise not_supported("a common table expression with several recursive members")
        exposes, self.sources.exposes_rows = self.sources.exposes_rows, False
        anchor = self.query(body.left)
        columns = renamed_values(anchor.columns, table)
        visible[table.name.casefold()] = (key, columns)
        step = body.right.body
        if not isinstance(step, Select) or step.grouping_sets or step.distinct or step.top:
            raise not_supported("this form of the recursive member of a common table expression")
        core = self._core(step, (), None)
        self.sources.exposes_rows = exposes
        if any(column.mask for column in core.columns):
            raise not_supported("masked columns in a recursive member without UNMASK")
        texts = matched_columns(core.columns, columns, table.name)
        reference = next((s for s in core.scope.sources if s.table == key), None)
        if reference is None:
            raise not_supported("a recursive reference inside a subquery")
        level = f", t_level({reference.key}.lv, {table.max_recursion}) AS lv"
        names = ", ".join(f"v{n}" for n in range(len(columns)))
        return (
            f"{key}({names}, lv) AS (SELECT {names}, 0 FROM ({anchor.text})"
            f" UNION ALL {core.selected(texts, level)})"
        )

    # Select -------------------------------------------------------------------------------------

    def _select(
        self,
        select: Select,
        order_by: tuple[OrderItem, ...],
        limits: Limits,
        parent: Scope | None,
    ) -> CompiledQuery:
        """One SELECT with its ORDER BY and limits."""
        limits.top = select.top
        if select.grouping_sets:
            return self._grouping_sets(select, order_by, limits, parent)
        core = self._core(select, order_by, parent)
        columns = core.columns
        if limits.top is not None and (limits.top.ties or limits.top.percent):
            return self._ranked(core.extended(), core, limits)
        terms = core.terms()
        parts = [core.selected([c.collated if core.distinct else c.sql for c in columns])]
        if terms:
            parts.append(f" ORDER BY {', '.join(terms)}")
        limit = self.limit(limits, ordered=bool(order_by))
        parts.append(limit)
        return CompiledQuery("".join(parts), columns, bool(terms or limit))

    def _core(
        self,
        select: Select,
        order_by: tuple[OrderItem, ...],
        parent: Scope | None,
        present: tuple[Expression, ...] | None = None,
    ) -> Core:
        """The parts of one SELECT; ``present`` is which of its grouping sets."""
        scope = Scope(parent=parent, windows=select.windows)
        source = self.sources.source(select.source, scope) if select.source is not None else ""
        where = self.expressions.condition(select.where, scope) if select.where is not None else ""
        group_terms = self._group(select, order_by, scope, present)
        columns = self.select_list(select.items, scope)
        if self.sources.exposes_rows and is_updatable(select):
            columns += [column.value() for column in scope.hidden()]
        scope.clause = Clause.HAVING
        having = (
            self.expressions.condition(select.having, scope) if select.having is not None else ""
        )
        scope.clause = Clause.ORDER_BY
        orders = self._order_values(order_by, columns, scope, distinct=select.distinct)
        if select.distinct:
            check_distinct(columns)
        tail = f" FROM {source}" if source else ""
        if where:
            tail += f" WHERE {where}"
        if group_terms:
            tail += f" GROUP BY {', '.join(group_terms)}"
        if having and not group_terms and not _selects_aggregates(select, order_by):
            # SQLite takes HAVING beside an aggregate only; nothing selected is of the rows.
            tail = f" FROM (SELECT count(*){tail} HAVING {having})"
        elif having:
            tail += f" HAVING {having}"
        return Core(columns, orders, tail, scope, select.distinct)

    def _grouping_sets(
        self,
        select: Select,
        order_by: tuple[OrderItem, ...],
        limits: Limits,
        parent: Scope | None,
    ) -> CompiledQuery:
        """GROUPING SETS, ROLLUP and CUBE: one SELECT per set, united and ordered together."""
        cores = [self._core(select, order_by, parent, keys) for keys in select.grouping_sets]
        texts = [core.extended(aggregated=True) for core in cores]
        core = cores[0]
        columns = [
            replace(column, nullable=any(c.columns[n].nullable for c in cores), constant=None)
            for n, column in enumerate(core.columns)
        ]
        core = replace(core, columns=columns)
        width = len(columns) + len(core.orders) + 1
        text = joined(texts, "UNION" if select.distinct else "UNION ALL", width)
        if limits.top is not None and (limits.top.ties or limits.top.percent):
            return self._ranked(text, core, limits)
        names = ", ".join(f"v{n}" for n in range(len(columns)))
        terms = core.outer_terms()
        order = f" ORDER BY {', '.join(terms)}" if terms else ""
        limit = self.limit(limits, ordered=bool(order_by))
        return CompiledQuery(f"SELECT {names} FROM ({text}){order}{limit}", columns, True)

    def _ranked(self, text: str, core: Core, limits: Limits) -> CompiledQuery:
        """TOP (n) PERCENT and WITH TIES: the rows are numbered, then cut by their numbers."""
        top = known(limits.top, "TOP clause")
        if top.ties and not core.orders:
            raise messages.ties_without_order()
        names = ", ".join(f"v{n}" for n in range(len(core.columns)))
        terms = core.outer_terms()
        order = f"ORDER BY {', '.join(terms)}" if terms else ""
        number = "rank()" if top.ties else "row_number()"
        count = self.row_count(top.count)
        if top.percent:
            count = f"t_percent(n, {self.percentage(top)})"
        inner = f"SELECT *, {number} OVER ({order}) AS r, count(*) OVER () AS n FROM ({text})"
        return CompiledQuery(
            f"SELECT {names} FROM ({inner}) WHERE r <= {count} ORDER BY r", core.columns, True
        )

    def percentage(self, top: Top) -> str:
        """The argument of TOP (p) PERCENT."""
        return converted(self.expressions.value(top.count, Scope()), FLOAT, explicit=True).sql

    def _group(
        self,
        select: Select,
        order_by: tuple[OrderItem, ...],
        scope: Scope,
        present: tuple[Expression, ...] | None = None,
    ) -> list[str]:
        """GROUP BY terms; from here on the scope refuses columns outside of them."""
        is_aggregate = select.having is not None or _selects_aggregates(select, order_by)
        if not select.group_by and not is_aggregate:
            return []
        values = [self.expressions.value(node, scope) for node in select.group_by]
        if any(value.constant is not None for value in values):
            raise messages.error(164, line=select.line)
        check_sorted(values, "GROUP BY")
        scope.grouped = frozenset(v.sql for v in values)
        if present is not None:
            kept = {
                v.sql: v for v in (self.expressions.value(n, scope.ungrouped()) for n in present)
            }
            scope.absent = scope.grouped - kept.keys()
            return [v.collated for v in kept.values()]
        return [v.collated for v in values]

    def select_list(self, items: tuple[SelectItem, ...], scope: Scope) -> list[Value]:
        """The columns of a select list, stars expanded."""
        columns: list[Value] = []
        for item in items:
            node = item.expression
            if isinstance(node, Star):
                if not scope.sources:
                    raise messages.error(263)
                columns += [self._starred(c) for c in scope.starred(node.qualifier, 1)]
                continue
            self.compilation.uses_masked = False
            value = self.expressions.value(node, scope)
            is_column, uses_masked = isinstance(node, ColumnName), self.compilation.uses_masked
            value = replace(
                value, mask=mask_of(value, is_column=is_column, uses_masked=uses_masked)
            )
            name = item.alias or (node.parts[-1] if isinstance(node, ColumnName) else "")
            if isinstance(node, ColumnName) and item.alias is None:
                name = value.name or name
            columns.append(replace(value, name=name))
        return columns

    def _starred(self, column: SourceColumn) -> Value:
        """A column of ``*``; a computed one over a masked column is masked by default()."""
        self.compilation.uses_masked = False
        value = column.value()
        mask = mask_of(value, is_column=True, uses_masked=self.compilation.uses_masked)
        return replace(value, mask=mask)

    def _order_values(
        self,
        order_by: tuple[OrderItem, ...],
        columns: list[Value],
        scope: Scope,
        *,
        distinct: bool,
    ) -> list[tuple[Value, bool]]:
        """What ORDER BY orders by, and whether it is descending.

        A term is an ordinal, an alias of the select list, or an expression.
        """
        found = []
        for item in order_by:
            value = self._order_value(item.expression, columns, scope)
            if distinct and all(value.sql != column.sql for column in columns):
                raise messages.error(145)
            found.append((value, item.descending))
        check_sorted((value for value, _ in found), "ORDER BY")
        return found

    def order_terms(self, order_by: tuple[OrderItem, ...], scope: Scope) -> list[str]:
        """ORDER BY terms of a query whose select list has no columns."""
        return ordering(self._order_values(order_by, [], scope, distinct=False))

    def _order_value(self, node: Expression, columns: list[Value], scope: Scope) -> Value:
        """What one ORDER BY term means."""
        if isinstance(node, Literal) and node.type == INT and isinstance(node.value, int):
            if not 1 <= node.value <= len(columns):
                raise messages.error(108, node.value)
            return columns[node.value - 1]
        if isinstance(node, ColumnName) and len(node.parts) == 1:
            folded = node.parts[0].casefold()
            named = [c for c in columns if c.name.casefold() == folded]
            if len({c.sql for c in named}) > 1:
                raise messages.ambiguous_column(node.parts[0], node.line)
            if named:
                return named[0]
        return self.expressions.value(node, scope)

    def limit(self, limits: Limits, *, ordered: bool) -> str:
        """LIMIT of TOP or OFFSET/FETCH."""
        if limits.top is not None:
            if limits.offset is not None:
                raise messages.error(10741)
            return f" LIMIT {self.row_count(limits.top.count)}"
        if limits.offset is None:
            return ""
        if not ordered:
            raise messages.syntax("OFFSET", 1)
        fetch = self.row_count(limits.fetch) if limits.fetch is not None else "-1"
        return f" LIMIT {fetch} OFFSET {self.row_count(limits.offset)}"

    def row_count(self, node: Expression) -> str:
        """A number of rows; a negative one is error 1060."""
        if isinstance(node, Literal) and isinstance(node.value, int) and node.type == INT:
            return str(node.value)
        value = converted(self.expressions.value(node, Scope()), BIGINT, explicit=True)
        return f"t_row_count({value.sql})"

    # Set operations -----------------------------------------------------------------------------

    def _set_operation(self, node: SetOperation, parent: Scope | None) -> CompiledQuery:
        """UNION and its like; a chain of UNION ALL is compiled as one."""
        parts = chain(node)
        exposes, self.sources.exposes_rows = self.sources.exposes_rows, False
        compiled = [self.query(part, parent) for part in parts]
        self.sources.exposes_rows = exposes
        width = len(compiled[0].columns)
        if any(len(c.columns) != width for c in compiled):
            raise messages.error(205)
        columns = [united_column(n, [c.columns[n] for c in compiled]) for n in range(width)]
        types = [column.type for column in columns]
        distinct = node.operator != "UNION ALL"
        if distinct:
            check_united(columns)
        texts = [
            self._aligned(
                query,
                types,
                collate=distinct and n == 0,
                nested=n > 0 and isinstance(part.body, SetOperation),
            )
            for n, (part, query) in enumerate(zip(parts, compiled, strict=True))
        ]
        return CompiledQuery(joined(texts, node.operator, width), columns)

    def _aligned(
        self,
        compiled: CompiledQuery,
        types: list[SqlType],
        *,
        collate: bool = False,
        nested: bool = False,
    ) -> str:
        """A query's text with its columns converted to the types of the whole."""
        texts = []
        changed = compiled.limited or nested
        for n, (column, sql_type) in enumerate(zip(compiled.columns, types, strict=True)):
            constant = column.constant if column.is_null else None
            outer = converted(replace(column, sql=f"v{n}", constant=constant), sql_type)
            text = outer.sql if not outer.is_null else f"v{n}"
            if collate and sql_type.is_character:
                text = replace(outer, sql=text).collated
            changed = changed or text != f"v{n}"
            texts.append(f"{text} AS v{n}")
        if not changed:
            return compiled.text
        return f"SELECT {', '.join(texts)} FROM ({compiled.text})"

    def _ordered(
        self,
        compiled: CompiledQuery,
        order_by: tuple[OrderItem, ...],
        limits: Limits,
        parent: Scope | None,
    ) -> CompiledQuery:
        """ORDER BY of a set operation: only its output columns can be named."""
        if not order_by:
            return compiled
        named = tuple(unqualified(item, compiled.columns) for item in order_by)
        values = self._order_values(named, compiled.columns, Scope(parent=parent), distinct=False)
        terms = ordering(values)
        names = ", ".join(f"v{n}" for n in range(len(compiled.columns)))
        order = f" ORDER BY {', '.join(terms)}" if terms else ""
        text = f"SELECT {names} FROM ({compiled.text}){order}{self.limit(limits, ordered=True)}"
        return CompiledQuery(text, compiled.columns, True)

    def _value_rows(self, node: ValueRows, parent: Scope | None) -> CompiledQuery:
        """A table value constructor as a query."""
        with refusing_masked(self.compilation, "VALUES"):
            rows = [
                [self.expressions.value(e, Scope(parent=parent)) for e in row] for row in node.rows
            ]
        width = len(rows[0])
        if any(len(row) != width for row in rows):
            raise messages.error(10709, line=node.line)
        types = [types_of.unite(r[n].type for r in rows if not r[n].is_null) for n in range(width)]
        texts = [[converted(v, t).sql for v, t in zip(r, types, strict=True)] for r in rows]
        columns = [Value(f"v{n}", t, any(r[n].nullable for r in rows)) for n, t in enumerate(types)]
        return CompiledQuery(united_rows(texts, correlated=parent is not None), columns)


def _selects_aggregates(select: Select, order_by: tuple[OrderItem, ...]) -> bool:
    """Whether the select list or ORDER BY has an aggregate."""
    nodes: list[Expression] = [item.expression for item in select.items]
    nodes += [item.expression for item in order_by]
    return any(contains_aggregate(node) for node in nodes)
