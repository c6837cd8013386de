"""The OUTPUT clause: expressions over the rows that a statement changed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from emulator.errors import not_supported
from emulator.results import ColumnMeta, Event, ResultSet, Rows
from emulator.security.access import of_object
from emulator.tsql.nodes import ColumnName, Star
from emulator.tsql.plan import Execution, Plan
from emulator.tsql.planner import column_meta
from emulator.tsql.queries import QueryCompiler
from emulator.tsql.rows import RowExecution, row_scope
from emulator.tsql.scope import BoundSource, Scope, SourceColumn
from emulator.types import StorageValue, nvarchar

if TYPE_CHECKING:
    from emulator.tsql.compiler import Compilation
    from emulator.tsql.statements import Output
    from emulator.tsql.statements import Target as TargetName
    from emulator.tsql.targets import Target


@dataclass(slots=True)
class OutputPlan:
    """A compiled OUTPUT clause."""

    plan: Plan
    holder: RowExecution
    columns: tuple[ColumnMeta, ...]
    into: TargetName | None
    into_columns: tuple[str, ...]
    collected: list[tuple[StorageValue, ...]] = field(default_factory=list)

    def begin(self) -> None:
        """Before the statement, also when it is repeated."""
        self.collected = []

    def add(
        self,
        execution: Execution,
        new: Sequence[Any] = (),
        old: Sequence[Any] = (),
        action: str = "",
    ) -> None:
        """Evaluates the list for one changed row."""
        self.holder.row, self.holder.old, self.holder.action = new, old, action
        text, bindings = self.plan.prepare(execution)
        self.collected += execution.workspace.connection.execute(text, bindings).fetchall()

    def events(self) -> list[Event]:
        """The result set that the client sees."""
        found: list[Event] = [ResultSet(self.columns)]
        if self.collected:
            found.append(Rows(self.collected))
        return found


def compile_output(
    compilation: Compilation, output: Output | None, target: Target, pseudo: Sequence[str]
) -> OutputPlan | None:
    """The plan of an OUTPUT clause, or None without one.

    Args:
        compilation: of the statement.
        output: the clause.
        target: the table changed.
        pseudo: which of inserted and deleted exist here.
    """
    if output is None:
        return None
    own = type(compilation)(compilation.context, compilation.workspace, compilation.frame)
    database = getattr(target, "database", None)
    if database is not None:
        own.access.read(of_object(database, target.table), target.table.columns)
    compiler = QueryCompiler(own)
    holder = RowExecution()
    scope = Scope()
    for name in pseudo:
        source = row_scope(compiler, target, holder, name, old=name == "deleted")
        scope.sources.append(source)
    action = SourceColumn(
        "$action", nvarchar(10), False, own.slot(("action",), lambda _: holder.action)
    )
    for item in output.items:
        node = item.expression
        parts = node.parts if isinstance(node, ColumnName) else ()
        qualifier = node.qualifier if isinstance(node, Star) else parts[:-1]
        known = not qualifier or qualifier[0].casefold() in pseudo
        if not known:
            raise not_supported("OUTPUT of columns other than inserted and deleted")
    scope.sources.append(BoundSource("", [action], ""))
    values = compiler.select_list(output.items, scope)
    plan = own.plan("SELECT " + ", ".join(v.sql for v in values))
    compilation.guard.variables += own.guard.variables
    return OutputPlan(
        plan,
        holder,
        tuple(column_meta(v) for v in values),
        output.into,
        output.into_columns,
    )
