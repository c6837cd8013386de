"""``SELECT @s = @s + x FROM t``, ``UPDATE t SET @s = c = @s + x``: rows see what others assigned.

The rows are put in order first (a materialised CTE). Then one pass over them reads and sets the
variables through functions, in the order of the select list.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from tailrace_emulator.messages.errors import not_supported
from tailrace_emulator.tsql.compile.arithmetic import arithmetic
from tailrace_emulator.tsql.compile.masks import refusing_masked
from tailrace_emulator.tsql.compile.planner import assigned
from tailrace_emulator.tsql.compile.queries import QueryCompiler
from tailrace_emulator.tsql.compile.rows import stored
from tailrace_emulator.tsql.compile.scope import BoundSource, Scope
from tailrace_emulator.tsql.compile.select_core import Limits
from tailrace_emulator.tsql.compile.values import Value, literal_sql
from tailrace_emulator.tsql.functions.aggregates import contains_aggregate
from tailrace_emulator.tsql.syntax.nodes import Variable

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tailrace_emulator.storage.model import Table
    from tailrace_emulator.tsql.compile.compiler import Compilation
    from tailrace_emulator.tsql.compile.frames import Frame
    from tailrace_emulator.tsql.compile.plan import Plan
    from tailrace_emulator.tsql.compile.targets import Target
    from tailrace_emulator.tsql.syntax.nodes import Query, Select
    from tailrace_emulator.tsql.syntax.statements import Assignment, Update
    from tailrace_emulator.values.types import SqlType


def running_assignment(compilation: Compilation, query: Query, body: Select, frame: Frame) -> Plan:
    """The plan of a SELECT whose expressions read the variables that it sets.

    Raises:
        SqlError: 50900 for grouping, DISTINCT and common table expressions in such a statement.
    """
    aggregated = any(contains_aggregate(item.expression) for item in body.items)
    if aggregated or body.group_by or body.distinct or query.common_tables:
        raise not_supported("SELECT @x = @x ... with grouping, DISTINCT or WITH")
    names = [str(item.variable).casefold() for item in body.items]
    compiler = RunningCompiler(compilation, {name: frame.types[name] for name in names})
    rows = Scope()
    queries, expressions = compiler.queries, compiler.queries.expressions
    source = f" FROM {queries.sources.source(body.source, rows)}" if body.source else ""
    where = f" WHERE {expressions.condition(body.where, rows)}" if body.where is not None else ""
    order = queries.order_terms(query.order_by, rows)
    limit = queries.limit(Limits(body.top, query.offset, query.fetch), ordered=bool(order))
    columns = [(s, c) for s in rows.sources for c in s.columns]
    texts = [f"{c.value().sql} AS v{n}" for n, (_, c) in enumerate(columns)]
    ordered = f" ORDER BY {', '.join(order)}" if order else ""
    inner = f"SELECT {', '.join(texts) or '1'}{source}{where}{ordered}{limit}"
    key = compilation.alias("k")
    kept: dict[int, BoundSource] = {
        id(s): BoundSource(s.alias, [], key, s.path) for s in rows.sources
    }
    for n, (bound, column) in enumerate(columns):
        value = column.value()
        kept[id(bound)].columns.append(
            replace(column, sql=f"{key}.v{n}", type=value.type, make=None, stored=False)
        )
    compiler.running = True
    scope = Scope(sources=list(kept.values()))
    settings = []
    for item, name in zip(body.items, names, strict=True):
        with refusing_masked(compilation, "SELECT @x = @x ..."):
            value = expressions.value(item.expression, scope)
        if item.operator != "=":
            value = arithmetic(
                item.operator[0], compiler.variable_now(name), value, compilation.semantics
            )
        value = assigned(value, frame.types[name])
        settings.append(f"t_set({literal_sql(name)}, {value.sql})")
    text = f"WITH {key} AS MATERIALIZED ({inner}) SELECT {', '.join(settings)} FROM {key}"
    return compilation.plan(text)


class RunningCompiler:
    """While ``running``, assigned variables are read as they are at that row.

    Attributes:
        queries: the compiler of the statement, which reads variables here.
    """

    def __init__(self, compilation: Compilation, assigned_types: dict[str, SqlType]) -> None:
        self.queries = QueryCompiler(compilation, self.variable)
        self.running = False
        self._compilation = compilation
        self._assigned = assigned_types

    def variable(self, name: str) -> Value:
        """A variable, as it is before the statement or at this row."""
        folded = name.casefold()
        if self.running and folded in self._assigned:
            return self.variable_now(folded)
        return self._compilation.variable(name)

    def variable_now(self, name: str) -> Value:
        """A variable's value at this row."""
        return Value(f"t_get({literal_sql(name)})", self._assigned[name])


def mentions(node: Any, names: set[str]) -> bool:
    """Whether a tree holds one of the variables."""
    if isinstance(node, Variable):
        return node.name.casefold() in names
    if isinstance(node, tuple):
        return any(mentions(item, names) for item in node)
    slots = getattr(type(node), "__slots__", ())
    return any(mentions(getattr(node, slot), names) for slot in slots)


def running_variables(node: Update) -> set[str]:
    """The variables of an UPDATE that its expressions read as well as set.

    Raises:
        SqlError: 50900 for a source, TOP, OUTPUT or WITH in such a statement.
    """
    names = {a.variable.casefold() for a in node.assignments if a.variable is not None}
    read = any(
        mentions(a.value, names) or (a.variable is not None and a.operator != "=")
        for a in node.assignments
    )
    if not names or not (read or mentions(node.where, names)):
        return set()
    if node.source is not None or node.top is not None or node.output or node.common_tables:
        raise not_supported("UPDATE ... SET @x = @x ... with FROM, TOP, OUTPUT or WITH")
    return names


def in_key_order(source: str, bound: BoundSource, table: Table) -> str:
    """A table as a source whose rows come in the order of its clustered index."""
    clustered = next((i for i in table.indexes if i.clustered), None)
    terms = ["rid"]
    if clustered is not None:
        pairs = zip(clustered.column_ids, clustered.descending, strict=True)
        terms = [f"c{column_id}{' DESC' if down else ''}" for column_id, down in pairs]
    return f"(SELECT * FROM {source} ORDER BY {', '.join(terms)} LIMIT -1) AS {bound.key}"


def running_texts(
    compiler: RunningCompiler,
    assignments: Sequence[Assignment],
    target: Target,
    columns: dict[int, str],
    scope: Scope,
) -> tuple[str, list[str]]:
    """What an UPDATE selects to set its variables.

    Returns:
        A condition that sets the variables without a column, and is always true; the texts of all
        variables after a row. Those of ``columns`` come to set the variables with one.
    """
    compilation, expressions = compiler.queries.compilation, compiler.queries.expressions
    types, semantics = compilation.frame.types, compilation.semantics
    settings, after = [], []
    for node in assignments:
        if node.variable is None:
            continue
        name = node.variable.casefold()
        after.append(f"t_get({literal_sql(name)})")
        if node.column is None:
            with refusing_masked(compilation, "SET"):
                value = expressions.value(node.value, scope)
            if node.operator != "=":
                value = arithmetic(node.operator[0], compiler.variable_now(name), value, semantics)
            settings.append(f"t_set({literal_sql(name)}, {assigned(value, types[name]).sql})")
            continue
        folded = node.column[-1].casefold()
        position, column = next(
            (n, c) for n, c in enumerate(target.table.columns) if c.name.casefold() == folded
        )
        value = assigned(Value(columns[position], column.type), types[name])
        kept = Value(f"t_set({literal_sql(name)}, {value.sql})", types[name])
        columns[position] = stored(kept, column, target, semantics).sql
    return " + ".join([*(f"({text} IS NULL)" for text in settings), "0"]) + " >= 0", after
