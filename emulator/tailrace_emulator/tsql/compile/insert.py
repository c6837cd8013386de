"""INSERT: where the rows come from, and what each becomes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from tailrace_emulator import messages
from tailrace_emulator.messages.errors import SqlError, not_supported
from tailrace_emulator.storage.model import Column
from tailrace_emulator.storage.values import GENERATED
from tailrace_emulator.tsql.compile.masks import masked_query, refusing_masked
from tailrace_emulator.tsql.compile.named_targets import resolve_target
from tailrace_emulator.tsql.compile.names import stored_table
from tailrace_emulator.tsql.compile.output import OutputPlan, compile_output
from tailrace_emulator.tsql.compile.plan import Execution, Plan, found_rows, limited
from tailrace_emulator.tsql.compile.queries import QueryCompiler
from tailrace_emulator.tsql.compile.rows import (
    Defaults,
    RowProgram,
    column_assigner,
    compile_defaults,
    row_program,
    stored,
)
from tailrace_emulator.tsql.compile.scope import Scope
from tailrace_emulator.tsql.compile.sequence_rules import refuse_next_values
from tailrace_emulator.tsql.compile.targets import StoredTarget, Target
from tailrace_emulator.tsql.compile.through import find_view, inserted_through
from tailrace_emulator.tsql.compile.value_cells import (
    DEFAULT,
    Cell,
    constant_cell,
    united,
    variable_cell,
)
from tailrace_emulator.tsql.compile.values import Value, Views
from tailrace_emulator.tsql.compile.view_checks import ViewCheck, view_check
from tailrace_emulator.tsql.conversions import Conversion, check_allowed
from tailrace_emulator.tsql.functions.aggregates import refuse_windows
from tailrace_emulator.tsql.syntax.nodes import (
    DefaultMark,
    Expression,
    Query,
    TableName,
    ValueRows,
    Variable,
)
from tailrace_emulator.values.types import SqlType, StorageValue

if TYPE_CHECKING:
    from tailrace_emulator.storage.model import Column
    from tailrace_emulator.tsql.compile.compiler import Compilation
    from tailrace_emulator.tsql.syntax.nodes import Name
    from tailrace_emulator.tsql.syntax.statements import Insert


@dataclass(slots=True)
class InsertPlan:
    """A compiled INSERT.

    Attributes:
        given: positions of the columns that the source gives, in its order.
        cells: rows of readers, for VALUES of constants and variables; None otherwise.
        plans: queries that yield rows of given values.
        defaults: of the columns that are not given (or given as DEFAULT).
        template: a full row to start from.
        program: computed columns and checks.
        evaluates: whether a column that is not given has a default to evaluate for each row.
    """

    target: Target
    given: tuple[int, ...]
    defaults: Defaults
    template: tuple[Any, ...]
    program: RowProgram | None
    output: OutputPlan | None
    evaluates: bool = False
    cells: tuple[tuple[Cell, ...], ...] | None = None
    plans: tuple[Plan, ...] = ()
    check: ViewCheck | None = None
    """Of the views that it goes through."""
    fixed: tuple[dict[int, Any], ...] = ()
    """For each of ``plans``: given values that are DEFAULT, by place."""
    has_identity: bool = field(init=False)
    """Whether the table has an identity column."""

    def __post_init__(self) -> None:
        self.has_identity = any(column.identity for column in self.target.table.columns)

    @property
    def is_single(self) -> bool:
        """Whether all it does is to insert one row of constants and variables."""
        cells = self.cells
        return (
            cells is not None
            and len(cells) == 1
            and self.output is None
            and self.check is None
            and type(self.target) is StoredTarget
        )

    def rows(self, execution: Execution) -> Iterator[list[Any]]:
        """Given values, row by row."""
        if self.cells is not None:
            for cells in self.cells:
                yield [cell(execution) for cell in cells]
            return
        for number, plan in enumerate(self.plans):
            fixed = self.fixed[number] if self.fixed else {}
            for row in found_rows(execution, plan):
                values = list(row)
                for place in sorted(fixed):
                    values.insert(place, fixed[place])
                yield values

    def complete(self, execution: Execution, given: Sequence[Any]) -> tuple[Any, ...]:
        """The full row of some given values."""
        row = list(self.template)
        if self.evaluates or DEFAULT in given:
            for position, value in self.defaults.values(execution).items():
                row[position] = value
        for position, value in zip(self.given, given, strict=True):
            if value is not DEFAULT:
                row[position] = value
        return tuple(row)

    def _completed(
        self, execution: Execution, given: Iterable[Sequence[Any]]
    ) -> Iterator[tuple[Any, ...]]:
        """The full rows, as they are asked for."""
        program = self.program
        cancelled = execution.context.cancelled
        for values in given:
            if cancelled.is_set():
                raise messages.cancelled()
            row = self.complete(execution, values)
            if program is not None:
                if self.has_identity and not self.target.is_replaced("INSERT"):
                    # Checks and computed columns see the value, and one that they refuse is used.
                    row = self.target.numbered(execution.context, row)
                row = program.run(execution, row, "INSERT", self.target)
            yield row

    def with_defaults(self, given: Sequence[Any]) -> list[Any]:
        """Given values in which NULL is DEFAULT where the column has one."""
        columns = self.target.table.columns
        return [
            DEFAULT if value is None and columns[position].default is not None else value
            for position, value in zip(self.given, given, strict=True)
        ]

    def run(self, execution: Execution) -> int:
        """Inserts; returns how many rows. Called inside a statement, perhaps repeatedly."""
        return self.write(execution, self.rows(execution))

    def write(
        self,
        execution: Execution,
        given: Iterable[list[Any]],
        others: Sequence[Sequence[Any]] = (),
    ) -> int:
        """Inserts rows of given values; ``others`` is what OUTPUT reads of other tables, by row."""
        rows = limited(execution, self._completed(execution, given))
        if self.cells is not None and len(self.cells) == 1:
            rows = list(rows)
        rids = self.target.insert(execution.context, rows)
        if self.check is not None and not self.target.is_replaced("INSERT"):
            self.check.verify(execution, rids)
        if self.output is not None:
            self.output.begin()
            now = self.target.read(execution.context, rids)
            for number, rid in enumerate(rids):
                beside = others[number] if others else ()
                self.output.add(execution, new=now[rid], action="INSERT", others=beside)
        if self.target.is_replaced("INSERT"):
            return len(rids)
        if rids and self.has_identity:
            execution.context.scope_identity = execution.context.store.last_identity
        return len(rids)


class InsertCompiler:
    """Compiles an INSERT."""

    def __init__(self, compilation: Compilation, node: Insert) -> None:
        self.compilation = compilation
        self.node = node
        self.compiler = QueryCompiler(compilation)
        self.views: Views = ()
        if isinstance(node.target, TableName) and find_view(compilation, node.target):
            node = self.node = self._through(node, node.target)
        self.target = resolve_target(compilation, node.target)
        compilation.access.change_through(self.views, self.target, "INSERT")

    def compile(self) -> InsertPlan:
        """The plan.

        Raises:
            SqlError: 213, 207, 264, 271, 273, 544, 545, 109, 110, 120, 121.
        """
        node = self.node
        given = self._given_positions()
        plan = empty_plan(self.compilation, self.target, given)
        plan.check = view_check(self.compilation, self.target)
        plan.output = compile_output(
            self.compilation, node.output, self.target, ["inserted"], views=self.views
        )
        if node.default_values:
            plan.cells = ((),)
            return plan
        if node.query is None:
            return plan
        if isinstance(node.query.body, ValueRows) and not node.query.common_tables:
            self._values(plan, node.query.body)
        else:
            self._query(plan, node.query)
        if node.top is not None and plan.cells is not None:
            raise not_supported("INSERT TOP (n) ... VALUES")
        return plan

    def _through(self, node: Insert, view: TableName) -> Insert:
        """The INSERT into the table that a view shows."""
        scope = Scope()
        self.compiler.sources.exposes_rows = True
        self.compilation.access.reads = False
        self.compiler.sources.source(view, scope)
        self.compilation.access.reads = True
        self.compiler.sources.exposes_rows = False
        through, columns = inserted_through(node, view.name, scope.sources[0])
        self.views = through.views
        if not node.columns and isinstance(through.target, TableName):
            _, table = stored_table(self.compilation.context, through.target.name, node.line)
            shown = [(name, table.column(name)) for name in columns]
            columns = tuple(name for name, c in shown if c is None or _takes_value(c))
        return replace(node, target=through.target, columns=columns)

    def _given_positions(self) -> tuple[int, ...]:
        """Positions of the columns that the source gives."""
        if self.node.default_values:
            return ()
        return given_positions(self.compilation, self.target, self.node.columns)

    # VALUES -------------------------------------------------------------------------------------

    def _values(self, plan: InsertPlan, body: ValueRows) -> None:
        """VALUES: cells where every value is a constant or variable, else one query per row."""
        width = len(plan.given)
        for row in body.rows:
            if len(row) != width:
                raise self._width_error(len(row), width, query=False)
        given = []
        for row in body.rows:
            self.compilation.taken_sequences.clear()  # each row takes values of its own
            given.append([self._value(e) for e in row])
        rows = united(given) if len(given) > 1 else given
        columns = [self.target.table.columns[p] for p in plan.given]
        semantics = self.compilation.semantics
        simple = not semantics.is_lenient and all(
            v is None or v.constant is not None or isinstance(e, Variable)
            for row, values in zip(body.rows, rows, strict=True)
            for e, v in zip(row, values, strict=True)
        )
        if simple:
            plan.cells = tuple(
                tuple(
                    self._cell(e, g, v, column)
                    for e, g, v, column in zip(row, before, values, columns, strict=True)
                )
                for row, before, values in zip(body.rows, given, rows, strict=True)
            )
            return
        plans, fixed = [], []
        for values in rows:
            texts, marks = [], {}
            for place, (value, column) in enumerate(zip(values, columns, strict=True)):
                if value is None:
                    marks[place] = DEFAULT
                else:
                    texts.append(stored(value, column, self.target, semantics).sql)
            plans.append("SELECT " + (", ".join(texts) or "1"))
            fixed.append(marks)
        plan.plans = tuple(self.compilation.plan(text) for text in plans)
        plan.fixed = tuple(fixed)

    def _value(self, node: Expression) -> Value | None:
        """A value; None for DEFAULT."""
        refuse_windows(node)
        return None if isinstance(node, DefaultMark) else self._unmasked(node)

    def _unmasked(self, node: Expression) -> Value:
        with refusing_masked(self.compilation, "VALUES"):
            return self.compiler.expressions.value(node, Scope())

    def _cell(
        self, node: Expression, given: Value | None, value: Value | None, column: Column
    ) -> Cell:
        """Yields one given value: as it is written, and in the common type of VALUES."""
        semantics, shown = self.compilation.semantics, self.target.shown

        def assigner(source: SqlType) -> Conversion | None:
            check_allowed(source, column.type, explicit=False)
            return column_assigner(source, column.type, shown, column.name, semantics)

        if isinstance(node, Variable) and given is not None and value is not None:
            return variable_cell(node, given, value, column.type, assigner)
        return constant_cell(value, column.type, assigner)

    # Queries ------------------------------------------------------------------------------------

    def _query(self, plan: InsertPlan, query: Query) -> None:
        """INSERT .. SELECT."""
        if self.node.common_tables:
            query = replace(query, common_tables=(*self.node.common_tables, *query.common_tables))
        compiled = masked_query(self.compiler.query(query))
        if self.compilation.sequences:
            refuse_next_values(query)
        if len(compiled.columns) != len(plan.given):
            raise self._width_error(len(compiled.columns), len(plan.given), query=True)
        texts, changed = [], self.node.top is not None
        for n, (value, position) in enumerate(zip(compiled.columns, plan.given, strict=True)):
            column = self.target.table.columns[position]
            kept = value if value.is_null else replace(value, sql=f"v{n}", constant=None)
            text = stored(kept, column, self.target, self.compilation.semantics).sql
            changed = changed or text != f"v{n}"
            texts.append(text)
        text = compiled.text
        if changed:
            limit = ""
            if self.node.top is not None:
                limit = f" LIMIT {self.compiler.row_count(self.node.top.count)}"
            text = f"SELECT {', '.join(texts)} FROM ({compiled.text}){limit}"
        plan.plans = (self.compilation.plan(text),)

    def _width_error(self, count: int, expected: int, *, query: bool) -> SqlError:
        """109, 110, 120, 121, 213 or 8101."""
        if not self.node.columns:
            table = self.target.table
            given = [c for c in table.columns if not c.computed and c.type.name != "timestamp"]
            if count == len(given) and any(c.identity for c in given):
                raise messages.error(
                    8101, messages.dotted(_name_of(self.node)), line=self.node.line
                )
            return messages.error(213, line=self.node.line)
        more = expected > count
        if query:
            return messages.error(120 if more else 121, line=self.node.line)
        return messages.error(109 if more else 110, line=self.node.line)


def _takes_value(column: Column) -> bool:
    """Whether an INSERT without a list of columns gives the column a value."""
    return not column.computed and column.type.name != "timestamp" and not column.identity


def given_positions(
    compilation: Compilation, target: Target, names: Sequence[str]
) -> tuple[int, ...]:
    """Positions of the columns named, or of all that take a value.

    Raises:
        SqlError: 207, 264, 271, 273, 544, 545.
    """
    table = target.table
    explicit = compilation.context.options.identity_insert == table.object_id
    if not names:
        # A column list is needed for a value of an identity column: 8101 tells of it.
        return tuple(n for n, c in enumerate(table.columns) if _takes_value(c))
    positions: list[int] = []
    for name in names:
        column = table.column(name)
        if column is None:
            raise messages.invalid_column(name, 1)
        position = table.columns.index(column)
        if position in positions:
            raise messages.error(264, name)
        if column.computed is not None:
            raise messages.error(271, name)
        if column.type.name == "timestamp":
            raise messages.error(273)
        if column.identity is not None and not explicit:
            raise messages.error(544, table.name)
        positions.append(position)
    identity = next((c for c in table.columns if c.identity), None)
    if explicit and identity is not None and table.columns.index(identity) not in positions:
        raise messages.error(545, table.name)
    return tuple(positions)


def empty_plan(compilation: Compilation, target: Target, given: tuple[int, ...]) -> InsertPlan:
    """A plan that still lacks its rows."""
    table = target.table
    template: list[Any] = [None] * len(table.columns)
    missing = []
    for position, column in enumerate(table.columns):
        if column.identity is not None or column.type.name == "timestamp":
            template[position] = GENERATED
        elif column.computed is None:
            missing.append(position)
    # Columns that are given may be given as DEFAULT, so the defaults of all are compiled.
    defaults = compile_defaults(compilation, target, missing)
    for position, value in defaults.constants.items():
        template[position] = value
    return InsertPlan(
        target,
        given,
        defaults,
        tuple(template),
        row_program(compilation, target),
        None,
        evaluates=any(position not in given for position in defaults.positions),
    )


def _name_of(node: Insert) -> Name:
    """The target as the statement names it."""
    return (node.target.name,) if isinstance(node.target.name, str) else node.target.name


__all__ = ["InsertCompiler", "InsertPlan", "StorageValue", "empty_plan", "given_positions"]
