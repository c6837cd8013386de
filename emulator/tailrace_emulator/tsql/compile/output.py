"""The OUTPUT clause: expressions over the rows that a statement changed."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from tailrace_emulator.messages.errors import not_supported
from tailrace_emulator.security.access import of_object
from tailrace_emulator.tsql.compile.plan import Execution, Plan
from tailrace_emulator.tsql.compile.planner import column_meta
from tailrace_emulator.tsql.compile.queries import QueryCompiler
from tailrace_emulator.tsql.compile.rows import RowExecution, row_scope
from tailrace_emulator.tsql.compile.scope import BoundSource, Scope, SourceColumn
from tailrace_emulator.tsql.syntax.nodes import ColumnName, Name, Star
from tailrace_emulator.values.results import ColumnMeta, Event, ResultSet, Rows
from tailrace_emulator.values.types import StorageValue, nvarchar

if TYPE_CHECKING:
    from tailrace_emulator.tsql.compile.compiler import Compilation
    from tailrace_emulator.tsql.compile.targets import Target
    from tailrace_emulator.tsql.compile.values import Views
    from tailrace_emulator.tsql.syntax.statements import Output
    from tailrace_emulator.tsql.syntax.statements import Target as TargetName


@dataclass(slots=True)
class OutputPlan:
    """A compiled OUTPUT clause."""

    plan: Plan
    holder: RowExecution
    columns: tuple[ColumnMeta, ...]
    into: TargetName | None
    into_columns: tuple[str, ...]
    other_texts: tuple[str, ...] = ()
    """SQLite texts of the other tables' columns, which the statement's query must yield."""
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
        others: Sequence[Any] = (),
    ) -> None:
        """Evaluates the list for one changed row."""
        self.holder.row, self.holder.old, self.holder.action = new, old, action
        self.holder.others = others
        text, bindings = self.plan.prepare(execution)
        self.collected += execution.workspace.connection.execute(text, bindings).fetchall()

    def events(self) -> list[Event]:
        """The result set that the client sees."""
        found: list[Event] = [ResultSet(self.columns)]
        if self.collected:
            found.append(Rows(self.collected))
        return found


def compile_output(
    compilation: Compilation,
    output: Output | None,
    target: Target,
    pseudo: Sequence[str],
    sources: Sequence[BoundSource] = (),
    *,
    optional: bool = False,
    views: Views = (),
) -> OutputPlan | None:
    """The plan of an OUTPUT clause, or None without one.

    Args:
        pseudo: which of inserted and deleted exist here.
        sources: the statement's tables other than the target.
        optional: whether inserted may have no row (MERGE that deletes).
        views: through which the target is changed, the outermost first.
    """
    if output is None:
        return None
    own = type(compilation)(compilation.context, compilation.workspace, compilation.frame)
    own.access.read_changed(views, target)
    compiler = QueryCompiler(own)
    holder = RowExecution()
    scope = Scope()
    for name in pseudo:
        source = row_scope(
            compiler.expressions, target, holder, name, old=name == "deleted", optional=optional
        )
        scope.sources.append(source)
        database = getattr(target, "database", None)
        if database is not None:
            securable = of_object(database, target.table)
            masks = own.access.masked(securable, target.table.columns)
            for column in source.columns:
                column.mask = masks.get(column.name, "")
    action = SourceColumn(
        "$action", nvarchar(10), False, own.slot(("action",), lambda _: holder.action)
    )
    others: list[str] = []
    for source in sources if _names_others(output, pseudo) else ():
        scope.sources.append(_other_source(own, holder, source, others))
    scope.sources.append(BoundSource("", [action], ""))
    values = compiler.select_list(output.items, scope)
    if any(value.mask for value in values):
        raise not_supported("masked columns in OUTPUT without UNMASK")
    plan = own.plan("SELECT " + ", ".join(v.sql for v in values))
    compilation.guard.variables += own.guard.variables
    return OutputPlan(
        plan,
        holder,
        tuple(column_meta(v) for v in values),
        output.into,
        output.into_columns,
        tuple(others),
    )


def _names_others(output: Output, pseudo: Sequence[str]) -> bool:
    """Whether a list names columns of other tables than inserted and deleted."""
    return any(name[0].casefold() not in pseudo for name in _qualifiers(output.items))


def _qualifiers(node: Any) -> Iterator[Name]:
    """The qualifiers of every column in a tree."""
    if isinstance(node, ColumnName):
        if len(node.parts) > 1:
            yield node.parts[:-1]
    elif isinstance(node, Star):
        if node.qualifier:
            yield node.qualifier
    elif isinstance(node, tuple):
        for item in node:
            yield from _qualifiers(item)
    else:
        slots = [slot for kind in type(node).__mro__ for slot in getattr(kind, "__slots__", ())]
        for slot in slots:
            yield from _qualifiers(getattr(node, slot))


def _other_source(
    compilation: Compilation, holder: RowExecution, source: BoundSource, texts: list[str]
) -> BoundSource:
    """A source whose columns come from what the statement's query yielded next to its rows."""
    columns = []
    for column in source.columns:
        value = column.value()
        position = len(texts)
        texts.append(value.sql)

        def read(_: Execution, position: int = position) -> StorageValue:
            found: StorageValue = holder.others[position] if holder.others else None
            return found

        slot = compilation.slot(("other", position), read)
        columns.append(SourceColumn(column.name, value.type, True, slot))
    return BoundSource(source.alias, columns, source.key, source.path)
