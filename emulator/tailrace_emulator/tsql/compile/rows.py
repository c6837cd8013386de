"""What a new row needs beyond the values given: defaults, computed columns, CHECK constraints."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from tailrace_emulator import messages
from tailrace_emulator.storage.values import GENERATED
from tailrace_emulator.tsql.compile.plan import Execution, Plan
from tailrace_emulator.tsql.compile.queries import QueryCompiler
from tailrace_emulator.tsql.compile.scope import BoundSource, Scope, SourceColumn
from tailrace_emulator.tsql.compile.values import Value, apply, converted
from tailrace_emulator.tsql.conversions import Conversion, assigner, check_allowed
from tailrace_emulator.tsql.conversions.families import Family, family
from tailrace_emulator.tsql.conversions.rules import Rule
from tailrace_emulator.tsql.syntax.nodes import ColumnName, Expression
from tailrace_emulator.tsql.syntax.parser import parse_expression
from tailrace_emulator.values.types import SqlType, StorageValue

if TYPE_CHECKING:
    from tailrace_emulator.catalog.set_options import Semantics
    from tailrace_emulator.storage.model import Column
    from tailrace_emulator.tsql.compile.compiler import Compilation
    from tailrace_emulator.tsql.compile.expressions import ExpressionCompiler
    from tailrace_emulator.tsql.compile.targets import Target


def stored(value: Value, column: Column, target: Target, semantics: Semantics) -> Value:
    """A value on its way into a column: implicit conversion; text must fit, or is cut.

    Raises:
        SqlError: 206, 257 when there is no implicit conversion.
    """
    if value.is_null:
        return converted(value, column.type)
    if column.type == value.type and family(column.type) not in {Family.TEXT, Family.BINARY}:
        return value
    check_allowed(value.type, column.type, explicit=False)
    place = target.shown, column.name
    cut = not semantics.ansi_warnings
    return apply(value, Rule(value.type, column.type, column=place, truncates=cut))


def column_assigner(
    source: SqlType, target: SqlType, table: str, column: str, semantics: Semantics
) -> Conversion | None:
    """Conversion of a value that goes into a column, under the session's SET options."""
    return assigner(source, target, table, column, truncates=not semantics.ansi_warnings)


@dataclass(slots=True)
class RowExecution:
    """The row that a row program reads; shared by its slots through the execution."""

    row: Sequence[Any] = ()
    old: Sequence[Any] = ()
    action: str = ""
    others: Sequence[Any] = ()
    """Columns of the statement's other tables, for OUTPUT."""


def row_scope(
    compiler: ExpressionCompiler,
    target: Target,
    holder: RowExecution,
    name: str,
    *,
    old: bool = False,
    optional: bool = False,
) -> BoundSource:
    """A source whose columns are the values of the row in ``holder``."""
    columns: list[SourceColumn] = []
    for position, column in enumerate(target.table.columns):

        def read(_: Execution, position: int = position) -> StorageValue:
            row = holder.old if old else holder.row
            value: StorageValue = row[position] if row else None
            return value

        slot = compiler.compilation.slot(("row", id(holder), old, position), read)
        make = None
        if column.computed is not None and not column.persisted:

            def make_computed(column: Column = column) -> Value:
                inner = Scope(sources=[BoundSource(name, columns, name)])
                with compiler.compilation.under(ansi_nulls=True):
                    value = compiler.value(parse_expression(column.computed or ""), inner)
                return converted(value, column.type, explicit=True)

            make = make_computed
        columns.append(
            SourceColumn(
                column.name,
                column.type,
                column.nullable or old or optional,
                slot,
                identity=column.identity is not None,
                make=make,
            )
        )
    return BoundSource(name, columns, name)


@dataclass(slots=True)
class RowProgram:
    """Computes persisted columns and checks constraints of one row at a time."""

    plan: Plan
    holder: RowExecution
    computed: tuple[int, ...]
    """Positions of persisted computed columns."""
    checks: tuple[tuple[str, str | None], ...]
    """Name and, when it concerns one column, that column."""

    def run(self, execution: Execution, row: Sequence[Any], statement: str, target: Target) -> Any:
        """The row, completed.

        Raises:
            SqlError: 547 when a CHECK constraint is false.
        """
        self.holder.row = row
        text, bindings = self.plan.prepare(execution)
        given: list[Any] = bindings
        bindings = [None if value is GENERATED else value for value in given]
        (found,) = execution.workspace.connection.execute(text, bindings).fetchall()
        checks = () if target.is_replaced(statement) else self.checks
        for (name, column), kept in zip(checks, found[len(self.computed) :], strict=False):
            if kept == 0:
                shown = f"{target.table.schema}.{target.table.name}"
                raise messages.check_violated(statement, name, target.database_name, shown, column)
        if not self.computed:
            return row
        completed = list(row)
        for position, value in zip(self.computed, found, strict=False):
            completed[position] = value
        return tuple(completed)


def row_program(compilation: Compilation, target: Target) -> RowProgram | None:
    """The program of a table, or None when it has neither."""
    table = target.table
    computed = tuple(
        n for n, c in enumerate(table.columns) if c.computed is not None and c.persisted
    )
    enabled = [check for check in table.checks if not check.is_disabled]
    if not computed and not enabled:
        return None
    own = type(compilation)(compilation.context, compilation.workspace, compilation.frame)
    own.semantics = own.semantics.of_module(ansi_nulls=True)
    compiler = QueryCompiler(own).expressions
    holder = RowExecution()
    source = row_scope(compiler, target, holder, table.name)
    scope = Scope(sources=[source])
    texts: dict[int, str] = {}
    for position in computed:
        column = table.columns[position]
        value = compiler.value(parse_expression(column.computed or ""), scope)
        texts[position] = converted(value, column.type, explicit=True).sql
        # Checks see the value computed now, not the one that the row came with.
        source.columns[position].sql = f"({texts[position]})"
    parts = [texts[position] for position in computed]
    checks = []
    for check in enabled:
        expression = parse_expression(check.expression)
        parts.append(compiler.condition(expression, scope))
        names = set(columns_of(expression))
        checks.append((check.name, names.pop() if len(names) == 1 else None))
    return RowProgram(own.plan("SELECT " + ", ".join(parts)), holder, computed, tuple(checks))


def columns_of(node: Any) -> Iterator[str]:
    """Names of the columns in an expression."""
    if isinstance(node, ColumnName):
        yield node.parts[-1]
    elif isinstance(node, Expression):
        for slot in getattr(node, "__slots__", ()):
            yield from columns_of(getattr(node, slot))
    elif isinstance(node, tuple):
        for item in node:
            yield from columns_of(item)


@dataclass(slots=True)
class Defaults:
    """The defaults of some columns of a table, for a statement."""

    constants: dict[int, StorageValue] = field(default_factory=dict)
    """By position."""
    plan: Plan | None = None
    positions: tuple[int, ...] = ()
    """Positions that the plan's columns fill, evaluated for each row."""

    def values(self, execution: Execution) -> dict[int, StorageValue]:
        """The defaults of one row, by position."""
        if self.plan is None:
            return self.constants
        text, bindings = self.plan.prepare(execution)
        (row,) = execution.workspace.connection.execute(text, bindings).fetchall()
        return {**self.constants, **dict(zip(self.positions, row, strict=True))}


def compile_defaults(
    compilation: Compilation, target: Target, positions: Sequence[int]
) -> Defaults:
    """Defaults of the columns at those positions; NULL where there is none."""
    own = type(compilation)(compilation.context, compilation.workspace, compilation.frame)
    compiler = QueryCompiler(own).expressions
    defaults = Defaults()
    texts, computed = [], []
    for position in positions:
        column = target.table.columns[position]
        if column.default is None:
            defaults.constants[position] = None
            continue
        value = compiler.value(parse_expression(column.default), Scope())
        value = stored(value, column, target, compilation.semantics)
        if value.constant is not None:
            defaults.constants[position] = value.constant.value
        else:
            texts.append(value.sql)
            computed.append(position)
    if texts:
        defaults.plan = own.plan("SELECT " + ", ".join(texts))
        defaults.positions = tuple(computed)
    return defaults
