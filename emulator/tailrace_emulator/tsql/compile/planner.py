"""From a statement's tree to a plan, with a cache per statement and session.

A plan is found by the statement's tree (equal texts share one), and used while what it was compiled
against is unchanged. Drivers declare string parameters as long as their values, so a plan is
compiled for the longest length where that changes no result column.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Final, TypeVar

from tailrace_emulator import messages
from tailrace_emulator.tsql.compile.compiler import Compilation
from tailrace_emulator.tsql.compile.guard import Guard
from tailrace_emulator.tsql.compile.masks import masked_value
from tailrace_emulator.tsql.compile.plan import Plan
from tailrace_emulator.tsql.compile.queries import QueryCompiler
from tailrace_emulator.tsql.compile.scope import Scope
from tailrace_emulator.tsql.compile.sequence_rules import refuse_next_values
from tailrace_emulator.tsql.compile.values import Value, converted
from tailrace_emulator.tsql.functions.aggregates import refuse_windows
from tailrace_emulator.tsql.functions.masking import DEFAULT
from tailrace_emulator.tsql.syntax.nodes import Expression, Node, Query, ValueRows
from tailrace_emulator.tsql.syntax.statements import Insert
from tailrace_emulator.values.results import ColumnMeta

if TYPE_CHECKING:
    from tailrace_emulator.catalog.context import SessionContext
    from tailrace_emulator.tsql.compile.frames import Frame
    from tailrace_emulator.tsql.compile.workspace import Workspace
    from tailrace_emulator.values.types import SqlType

Made = TypeVar("Made")

_BULK_ROWS: Final = 20

COLUMNS_MAX: Final = 4096
"""Elements of a select list."""


class Planner:
    """Compiles for one session."""

    def __init__(self, context: SessionContext, workspace: Workspace) -> None:
        self.context = context
        self.workspace = workspace

    def cached(self, node: Node, frame: Frame, make: Callable[[Compilation], Made]) -> Made:
        """What ``make`` compiles for a statement, from the cache if it still holds.

        Args:
            make: compiles it; its result must not depend on the lengths of variables.
        """
        if _is_bulk(node):
            return _compiled(make, Compilation(self.context, self.workspace, frame, generic=True))
        plans = self.workspace.cached(node, list)
        version = self.workspace.local_version
        for guard, made in plans:
            if guard.holds(frame, version):
                found: Made = made
                return found
        compilation = Compilation(self.context, self.workspace, frame, generic=True)
        result = _compiled(make, compilation)
        self._remember(plans, compilation.guard, result)
        return result

    def _remember(self, plans: list[tuple[Guard, Made]], guard: Guard, made: Made) -> None:
        """Keeps a few plans per statement: one per set of parameter types."""
        version = self.workspace.local_version
        plans[:] = [
            (known, kept)
            for known, kept in plans[-15:]
            if known.local_version in {-1, version}
            and all(database.version == v for database, v in known.databases)
        ]
        plans.append((guard, made))

    def select(self, node: Node, query: Query, frame: Frame) -> Plan:
        """The plan of a SELECT."""
        plans = self.workspace.cached(node, list)
        version = self.workspace.local_version
        for guard, made in plans:
            if guard.holds(frame, version):
                found: Plan = made
                return found
        compilation = Compilation(self.context, self.workspace, frame)
        plan = self._compile(compilation, query)
        # A sql_variant keeps the declared length of its value.
        keeps = any(column.type.name == "sql_variant" for column in plan.columns)
        if compilation.has_sized_variable and not keeps:
            generic = Compilation(self.context, self.workspace, frame, generic=True)
            generic_plan = self._compile(generic, query)
            if generic_plan.columns == plan.columns:
                plan, compilation = generic_plan, generic
        if compilation.twins:
            plan = self._with_fast_parts(plan, compilation, query, frame)
        self._remember(plans, compilation.guard, plan)
        return plan

    def _compile(self, compilation: Compilation, query: Query) -> Plan:
        """One pass."""
        compiled = _compiled(lambda c: QueryCompiler(c).statement(query), compilation)
        if len(compiled.columns) > COLUMNS_MAX:
            raise messages.too_many_columns()
        if compilation.sequences:
            refuse_next_values(query)
        columns = tuple(column_meta(value) for value in compiled.columns)
        if compilation.semantics.is_lenient:  # what is computed may be NULL now
            columns = tuple(
                replace(column, nullable=column.nullable or not value.stored)
                for column, value in zip(columns, compiled.columns, strict=True)
            )
        return compilation.plan(compiled.text, columns)

    def _with_fast_parts(
        self, plan: Plan, compilation: Compilation, query: Query, frame: Frame
    ) -> Plan:
        """Adds the text that seeks by row values while twin parameters are equal."""
        fast = Compilation(
            self.context,
            self.workspace,
            frame,
            generic=compilation.generic,
            merge_twins=True,
        )
        compiled = QueryCompiler(fast).statement(query)
        fast_plan = fast.plan(compiled.text)
        return replace(
            plan,
            twins=tuple(dict.fromkeys(compilation.twins)),
            fast_parts=fast_plan.parts,
            fast_used=fast_plan.used,
        )

    def scalar(
        self, node: Expression, frame: Frame, target: SqlType | None = None
    ) -> tuple[Plan, SqlType]:
        """The plan of one expression (SET, IF, PRINT) and its type.

        Args:
            target: convert to this type, as an assignment does.
        """

        def make(compilation: Compilation) -> tuple[Plan, SqlType]:
            if target is not None and target.name == "sql_variant":
                compilation.generic = False  # it keeps the declared length of its value
            refuse_windows(node)
            value = QueryCompiler(compilation).expressions.value(node, Scope())
            if compilation.uses_masked:
                value = masked_value(replace(value, mask=DEFAULT))
            if target is not None:
                value = assigned(value, target)
            return compilation.plan(f"SELECT {value.sql}"), value.type

        return self.cached(node, frame, make)

    def condition(self, node: Expression, frame: Frame) -> Plan:
        """The plan of a condition: yields 1, 0 or NULL."""

        def make(compilation: Compilation) -> Plan:
            text = QueryCompiler(compilation).expressions.condition(node, Scope())
            return compilation.plan(f"SELECT {text}")

        return self.cached(node, frame, make)


def _compiled(make: Callable[[Compilation], Made], compilation: Compilation) -> Made:
    """What ``make`` compiles.

    Raises:
        SqlError: 8631 for a tree that is too deep, and what ``make`` raises.
    """
    try:
        return make(compilation)
    except RecursionError:
        raise messages.stack_limit() from None


def _is_bulk(node: Node) -> bool:
    """Whether a statement is INSERT of so many rows of VALUES that it will hardly come again."""
    if not isinstance(node, Insert) or node.query is None:
        return False
    body = node.query.body
    return isinstance(body, ValueRows) and len(body.rows) > _BULK_ROWS


def assigned(value: Value, target: SqlType) -> Value:
    """A value assigned to a variable: implicit conversion, text cut silently."""
    if value.is_null:
        return replace(value, type=target)
    return converted(value, target, explicit=value.type.is_character and target.is_character)


def column_meta(value: Value) -> ColumnMeta:
    """A result column as the client sees it."""
    return ColumnMeta(value.name, value.type, value.nullable, value.identity, value.computed)


__all__ = ["Planner", "assigned", "column_meta"]
