"""UPDATE and DELETE: a SELECT of row ids and new rows, then the store's own operations."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from tailrace_emulator import messages
from tailrace_emulator.messages.errors import SqlError, not_supported
from tailrace_emulator.storage.stage import SeenRows
from tailrace_emulator.tsql.compile.arithmetic import arithmetic
from tailrace_emulator.tsql.compile.common_tables import table_names
from tailrace_emulator.tsql.compile.large_writes import (
    columns_set,
    is_write,
    partly_written,
    written_value,
)
from tailrace_emulator.tsql.compile.masks import refusing_masked
from tailrace_emulator.tsql.compile.named_targets import resolve_target
from tailrace_emulator.tsql.compile.output import OutputPlan, compile_output
from tailrace_emulator.tsql.compile.plan import Execution, Plan, found_rows, limited
from tailrace_emulator.tsql.compile.planner import assigned
from tailrace_emulator.tsql.compile.queries import QueryCompiler
from tailrace_emulator.tsql.compile.rows import RowProgram, row_program, stored
from tailrace_emulator.tsql.compile.running_assignment import (
    RunningCompiler,
    in_key_order,
    running_texts,
    running_variables,
)
from tailrace_emulator.tsql.compile.scope import BoundSource, Scope
from tailrace_emulator.tsql.compile.targets import StoredTarget, Target
from tailrace_emulator.tsql.compile.through import Through, behind, find_view, renamed
from tailrace_emulator.tsql.compile.values import Value
from tailrace_emulator.tsql.compile.view_checks import ViewCheck, view_check
from tailrace_emulator.tsql.functions.aggregates import refuse_windows
from tailrace_emulator.tsql.syntax.nodes import (
    Call,
    DefaultMark,
    Derived,
    Join,
    Source,
    TableName,
    Top,
    VariableTable,
)
from tailrace_emulator.tsql.syntax.parser import parse_expression
from tailrace_emulator.tsql.syntax.statements import Assignment, Delete, Update
from tailrace_emulator.values.types import StorageValue

if TYPE_CHECKING:
    from tailrace_emulator.storage.model import Column
    from tailrace_emulator.tsql.compile.compiler import Compilation
    from tailrace_emulator.tsql.compile.expressions import ExpressionCompiler


@dataclass(slots=True)
class UpdatePlan:
    """A compiled UPDATE.

    Its query yields rid, the full new row, the old row (for OUTPUT) and the values of variables.
    """

    target: Target
    plan: Plan
    joined: bool
    program: RowProgram | None
    output: OutputPlan | None
    variables: tuple[str, ...]
    check: ViewCheck | None = None
    """Of the views that it goes through."""

    def run(self, execution: Execution) -> int:
        """Updates; returns how many rows. Called inside a statement, perhaps repeatedly."""
        if self.output is None and not self.joined and not self.variables:
            return self.target.update(execution.context, self._changes(execution))
        return self._run_whole(execution)

    def _changes(self, execution: Execution) -> Iterator[tuple[int, Any]]:
        """Row ids with full new rows, as they are asked for."""
        end = len(self.target.table.columns) + 1
        program = self.program
        for found in limited(execution, found_rows(execution, self.plan)):
            row: Any = found[1:end]
            if program is not None:
                row = program.run(execution, row, "UPDATE", self.target)
            yield found[0], row

    def _run_whole(self, execution: Execution) -> int:
        """As :meth:`run`, where rows are needed again after the change."""
        context = execution.context
        width = len(self.target.table.columns)
        found: list[Any] = list(found_rows(execution, self.plan))
        if self.joined:
            found = list({row[0]: row for row in reversed(found)}.values())[::-1]
        found = list(limited(execution, found))
        changes: list[tuple[int, Any]] = [(row[0], row[1 : width + 1]) for row in found]
        if self.program is not None:
            program = self.program
            changes = [
                (rid, program.run(execution, row, "UPDATE", self.target)) for rid, row in changes
            ]
        if changes:
            self.target.update(context, changes)
        if self.check is not None and not self.target.is_replaced("UPDATE"):
            self.check.verify(execution, [rid for rid, _ in changes])
        if self.output is not None:
            self.output.begin()
            now = self.target.read(context, [rid for rid, _ in changes])
            end = 2 * width + 1
            for row in found:
                old, others = row[width + 1 : end], row[end : end + len(self.output.other_texts)]
                self.output.add(execution, new=now[row[0]], old=old, action="UPDATE", others=others)
        if self.variables and found:
            for name, value in zip(self.variables, found[-1][-len(self.variables) :], strict=True):
                execution.frame.values[name] = value
        return len(changes)


@dataclass(slots=True)
class DeletePlan:
    """A compiled DELETE: the query yields rid and the old row (for OUTPUT)."""

    target: Target
    plan: Plan
    joined: bool
    output: OutputPlan | None

    def run(self, execution: Execution) -> int:
        """Deletes; returns how many rows. Called inside a statement, perhaps repeatedly."""
        if self.output is None:
            return self.target.delete(execution.context, self._rids(execution))
        found: list[Any] = list(found_rows(execution, self.plan))
        if self.joined:
            found = list({row[0]: row for row in found}.values())
        found = list(limited(execution, found))
        if found:
            self.target.delete(execution.context, [row[0] for row in found])
        self.output.begin()
        end = 1 + len(self.target.table.columns)
        for row in found:
            self.output.add(execution, old=row[1:end], action="DELETE", others=row[end:])
        return len(found)

    def _rids(self, execution: Execution) -> Iterator[int]:
        """Row ids, each once, as they are asked for."""
        rids: Iterator[int] = (row[0] for row in found_rows(execution, self.plan))
        if self.joined:
            seen = SeenRows()
            rids = (rid for rid in rids if seen.add(rid))
        return iter(limited(execution, rids))


class ChangeCompiler:
    """Compiles UPDATE and DELETE."""

    def __init__(self, compilation: Compilation) -> None:
        self.compilation = compilation
        compilation.takes_ordered_sequences = False
        self.compiler = QueryCompiler(compilation)

    def update(self, node: Update) -> UpdatePlan:
        """The plan of an UPDATE."""
        running = self._running(node)
        prefix = self._enter(node)
        assigned_names = [a.column[-1] for a in node.assignments if a.column]
        target, source, scope, bound, through = self._sources(
            node.target, node.source, assigned_names
        )
        if running is not None:
            if through is not None:
                raise not_supported("UPDATE ... SET @x = @x ... through a query")
            running.running = True
            source = in_key_order(source, bound, target.table)
        if through is not None:
            node = replace(node, assignments=renamed(through, node.assignments))
            if node.output is not None and through.renames:
                raise not_supported("OUTPUT of a change through columns with other names")
        named = [find_column(target, a.column[-1])[1] for a in node.assignments if a.column]
        views = through.views if through is not None else ()
        self.compilation.access.change_through(views, target, "UPDATE", named)
        assigned_columns = assignments(
            self.compiler.expressions, node.assignments, target, bound, scope
        )
        texts = [f"{bound.key}.rid"]
        values: list[str] = []
        if running is not None:
            first, values = running_texts(
                running, node.assignments, target, assigned_columns, scope
            )
            texts = [f"CASE WHEN {first} THEN {bound.key}.rid END"]
        for position, column in enumerate(target.table.columns):
            texts.append(assigned_columns.get(position) or f"{bound.key}.{column.sqlite_name}")
        output = compile_output(
            self.compilation,
            node.output,
            target,
            ["inserted", "deleted"],
            [s for s in scope.sources if s is not bound and through is None],
            views=views,
        )
        if output is not None:
            texts += [f"{bound.key}.{c.sqlite_name}" for c in target.table.columns]
            texts += output.other_texts
        names = tuple(a.variable.casefold() for a in node.assignments if a.variable is not None)
        if running is None:
            values = self._variables(node.assignments, target, assigned_columns, scope)
        texts += values
        text = prefix + self._text(texts, source, node.where, node.top, scope)
        return UpdatePlan(
            target,
            self.compilation.plan(text),
            node.source is not None or through is not None,
            row_program(self.compilation, target),
            output,
            names,
            view_check(self.compilation, target),
        )

    def delete(self, node: Delete) -> DeletePlan:
        """The plan of a DELETE."""
        prefix = self._enter(node)
        target, source, scope, bound, through = self._sources(node.target, node.source, ())
        joined = node.source is not None or through is not None
        views = through.views if through is not None else ()
        self.compilation.access.change_through(views, target, "DELETE")
        texts = [f"{bound.key}.rid"]
        if node.output is not None and through is not None and through.renames:
            raise not_supported("OUTPUT of a change through columns with other names")
        output = compile_output(
            self.compilation,
            node.output,
            target,
            ["deleted"],
            [s for s in scope.sources if s is not bound and through is None],
            views=views,
        )
        if output is not None:
            texts += [f"{bound.key}.{c.sqlite_name}" for c in target.table.columns]
            texts += output.other_texts
        text = prefix + self._text(texts, source, node.where, node.top, scope)
        return DeletePlan(target, self.compilation.plan(text), joined, output)

    def _enter(self, node: Update | Delete) -> str:
        """The WITH clause; its tables show their rows' ids if the change may go through one."""
        named = node.target.name[-1:] if isinstance(node.target, TableName) else ()
        folded = {name.casefold() for name in named}
        aliases = {name.casefold() for name in table_names(node.source)} if node.source else set()
        tables = {table.name.casefold() for table in node.common_tables}
        self.compiler.sources.exposes_rows = bool(tables & (folded | aliases))
        prefix = self.compiler.enter_common_tables(node.common_tables)
        self.compiler.sources.exposes_rows = False
        return prefix

    def _text(
        self, texts: list[str], source: str, where: Any, top: Top | None, scope: Scope
    ) -> str:
        """The SELECT."""
        condition = (
            f" WHERE {self.compiler.expressions.condition(where, scope)}"
            if where is not None
            else ""
        )
        limit = ""
        if top is not None:
            limit = f" LIMIT {self.compiler.row_count(top.count)}"
            if top.percent:
                count = f"SELECT count(*) FROM {source}{condition}"
                limit = f" LIMIT t_percent(({count}), {self.compiler.percentage(top)})"
        return f"SELECT {', '.join(texts)} FROM {source}{condition}{limit}"

    def _sources(
        self,
        node: TableName | VariableTable,
        source: Source | None,
        columns: Sequence[str],
    ) -> tuple[Target, str, Scope, BoundSource, Through | None]:
        """The target among the sources of FROM; alone without one.

        Raises:
            SqlError: 208 unknown target, 8154 ambiguous target.
        """
        scope = Scope()
        if source is None:
            if self._is_common_table(node) or find_view(self.compilation, node):
                self.compiler.sources.changed = node
                return self._through(node, node, scope, columns)
            target = resolve_target(self.compilation, node)
            self.compiler.sources.changed = node
            text = self.compiler.sources.source(node, scope)
            return target, text, scope, scope.sources[0], None
        name = (node.name,) if isinstance(node, VariableTable) else node.name
        named = self._named(source, name)
        if named is not None and (
            isinstance(named, Derived)
            or self._is_common_table(named)
            or find_view(self.compilation, named)
        ):
            self.compiler.sources.changed = named
            return self._through(source, node, scope, columns)
        text = self.compiler.sources.source(source, scope)
        matches = [s for s in scope.sources if s.answers_to(name)]
        if len(matches) > 1:
            raise messages.error(8154, name[-1])
        if not matches:
            if self._is_common_table(node):
                raise not_supported("changing a common table expression that FROM does not name")
            target = resolve_target(self.compilation, node)
            extra = self.compiler.sources.source(node, scope)
            return target, f"{extra} JOIN ({text})", scope, scope.sources[-1], None
        found = named if isinstance(named, TableName | VariableTable) else node
        return resolve_target(self.compilation, found), text, scope, matches[0], None

    def _through(
        self,
        source: Source,
        node: TableName | VariableTable,
        scope: Scope,
        columns: Sequence[str],
    ) -> tuple[Target, str, Scope, BoundSource, Through | None]:
        """The table that a query reads, joined to it by row id."""
        self.compiler.sources.exposes_rows = True
        text = self.compiler.sources.source(source, scope)
        self.compiler.sources.exposes_rows = False
        name = (node.name,) if isinstance(node, VariableTable) else node.name
        relation = next(s for s in scope.sources if s.answers_to(name[-1:]))
        through = behind(relation, messages.dotted(name), columns)
        target = resolve_target(self.compilation, through.target)
        inner = Scope()
        self.compiler.sources.changed = through.target
        with self.compilation.access.within(through.views):
            extra = self.compiler.sources.source(through.target, inner)
        bound = inner.sources[0]
        refused = next((column.check for column in relation.columns if column.check), None)
        for column in bound.columns:
            column.check = column.check or refused
        joined = f"{text} JOIN {extra} ON {bound.key}.rid = {through.rid}"
        return target, joined, scope, bound, through

    def _named(
        self, source: Source, name: tuple[str, ...]
    ) -> TableName | VariableTable | Derived | None:
        """The table of FROM that the target's name (often an alias) means."""
        if isinstance(source, Join):
            return self._named(source.left, name) or self._named(source.right, name)
        if isinstance(source, TableName | VariableTable):
            own = source.name if isinstance(source, VariableTable) else source.name[-1]
            if (source.alias or own).casefold() == name[-1].casefold():
                return source
        elif (getattr(source, "alias", None) or "").casefold() == name[-1].casefold():
            if isinstance(source, Derived):
                return source
            raise not_supported("changing rows through a function or PIVOT")
        return None

    def _is_common_table(self, node: TableName | VariableTable) -> bool:
        """Whether a name means a CTE of the statement."""
        return (
            isinstance(node, TableName)
            and len(node.name) == 1
            and self.compiler.common_table(node.name[0]) is not None
        )

    def _variables(
        self,
        nodes: Sequence[Assignment],
        target: Target,
        columns: dict[int, str],
        scope: Scope,
    ) -> list[str]:
        """Texts of ``SET @x = ..``."""
        texts = []
        for node in nodes:
            if node.variable is None:
                continue
            variable = self.compilation.variable(node.variable)
            if node.column is None:
                refuse_windows(node.value)
                with refusing_masked(self.compilation, "SET"):
                    value = self.compiler.expressions.value(node.value, scope)
                if node.operator != "=":
                    value = arithmetic(
                        node.operator[0], variable, value, self.compilation.semantics
                    )
            else:
                position, column = find_column(target, node.column[-1])
                value = Value(columns[position], column.type)
            declared = self.compilation.frame.types[node.variable.casefold()]
            texts.append(assigned(value, declared).sql)
        return texts

    def _running(self, node: Update) -> RunningCompiler | None:
        """What compiles an UPDATE whose rows see the variables that the rows before them set."""
        names = running_variables(node)
        if not names:
            return None
        types = self.compilation.frame.types
        for name in names:
            self.compilation.variable(name)
        running = RunningCompiler(self.compilation, {name: types[name] for name in names})
        self.compiler = running.queries
        return running


def find_column(target: Target, name: str) -> tuple[int, Column]:
    """Position and definition of a column of the target.

    Raises:
        SqlError: 207 for an unknown column.
    """
    column = target.table.column(name)
    if column is None:
        raise messages.invalid_column(name, 1)
    return target.table.columns.index(column), column


def assignments(
    compiler: ExpressionCompiler,
    nodes: Sequence[Assignment],
    target: Target,
    bound: BoundSource,
    scope: Scope,
) -> dict[int, str]:
    """SQLite text of the new value of each assigned column, by position.

    Raises:
        SqlError: 207, 264, 271, 272, 8102.
    """
    texts: dict[int, str] = {}
    for node in nodes:
        if node.column is None:
            continue
        position, column = find_column(target, node.column[-1])
        if position in texts:
            raise messages.error(264, column.name)
        _refuse_fixed(column)
        if isinstance(node.value, DefaultMark):
            default = parse_expression(column.default) if column.default else None
            value = compiler.value(default, Scope()) if default else Value("NULL", column.type)
        elif isinstance(node.value, Call) and is_write(node.value):
            value = written_value(compiler, node.value, column, target, scope)
            partly_written(target, [position])
        else:
            refuse_windows(node.value)
            with refusing_masked(compiler.compilation, "SET"):
                value = compiler.value(node.value, scope)
        if node.operator != "=":
            current = next(c for c in bound.columns if c.name == column.name).value()
            value = arithmetic(node.operator[0], current, value, compiler.compilation.semantics)
        texts[position] = stored(value, column, target, compiler.compilation.semantics).sql
    columns_set(target, texts)
    return texts


def _refuse_fixed(column: Column) -> None:
    """Columns that no statement may set."""
    error: SqlError | None = None
    if column.identity is not None:
        error = messages.error(8102, column.name)
    elif column.computed is not None:
        error = messages.error(271, column.name)
    elif column.type.name == "timestamp":
        error = messages.error(272)
    if error is not None:
        raise error


__all__ = [
    "ChangeCompiler",
    "DeletePlan",
    "StorageValue",
    "StoredTarget",
    "UpdatePlan",
    "replace",
]
