"""Runs INSERT, UPDATE, DELETE, MERGE and TRUNCATE of one session."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

import apsw

from tailrace_emulator import messages
from tailrace_emulator.messages.errors import Aborts, SqlError
from tailrace_emulator.tsql.certain import known
from tailrace_emulator.tsql.compile.cascaded_rows import CascadedRows
from tailrace_emulator.tsql.compile.change import ChangeCompiler, DeletePlan, UpdatePlan
from tailrace_emulator.tsql.compile.compiler import Compilation
from tailrace_emulator.tsql.compile.index_options import require_for_change
from tailrace_emulator.tsql.compile.insert import (
    InsertCompiler,
    InsertPlan,
    empty_plan,
    given_positions,
)
from tailrace_emulator.tsql.compile.lenient import quiet
from tailrace_emulator.tsql.compile.merge import MergeCompiler, MergePlan
from tailrace_emulator.tsql.compile.named_targets import resolve_target
from tailrace_emulator.tsql.compile.output import OutputPlan
from tailrace_emulator.tsql.compile.plan import Execution
from tailrace_emulator.tsql.compile.planner import Planner
from tailrace_emulator.tsql.compile.rows import column_assigner
from tailrace_emulator.tsql.compile.triggered_target import TriggeredTarget
from tailrace_emulator.tsql.conversions import check_allowed
from tailrace_emulator.tsql.definition.definition_access import authorize_truncate
from tailrace_emulator.tsql.definition.triggers import refuse_output
from tailrace_emulator.tsql.run.owed_messages import DUPLICATE_IGNORED, owed_messages
from tailrace_emulator.tsql.run.query_runner import translated
from tailrace_emulator.tsql.syntax.bulk_load import InsertBulk
from tailrace_emulator.tsql.syntax.statements import (
    Delete,
    Insert,
    Merge,
    Statement,
    Truncate,
    Update,
)
from tailrace_emulator.values.results import Event, ResultSet, Rows, StatementDone
from tailrace_emulator.values.types import StorageValue

if TYPE_CHECKING:
    from tailrace_emulator.catalog.context import SessionContext
    from tailrace_emulator.storage.cascades import Cascade
    from tailrace_emulator.tsql.compile.frames import Frame
    from tailrace_emulator.tsql.compile.targets import Target
    from tailrace_emulator.tsql.compile.workspace import Workspace
    from tailrace_emulator.tsql.syntax.statements import Target as TargetName

Fire = Callable[["Target", Statement, "Sequence[Cascade]", int, "Frame", list[Event]], None]
"""Runs the triggers of a statement: :meth:`TriggerRunner.fire`."""

ChangePlan = InsertPlan | UpdatePlan | DeletePlan | MergePlan

_COMMANDS: Final[dict[type, str]] = {
    Insert: "insert",
    Update: "update",
    Delete: "delete",
    Merge: "merge",
}


@dataclass(slots=True)
class Running:
    """A data statement under way; ``plan`` is None for INSERT .. EXEC."""

    plan: ChangePlan | None
    execution: Execution
    node: Statement
    target: Target | None = None
    runs: int = 0
    events: list[Event] = field(default_factory=list)
    """What triggers send the client."""


class DataRunner:
    """Data statements of one session."""

    def __init__(
        self, context: SessionContext, workspace: Workspace, planner: Planner, fire: Fire
    ) -> None:
        self.context = context
        self.workspace = workspace
        self.planner = planner
        self.fire = fire
        context.store.use_row_rules(CascadedRows(context, workspace))

    # INSERT, UPDATE, DELETE, MERGE --------------------------------------------------------------

    def change(self, node: Statement, frame: Frame) -> Iterator[Event]:
        """A statement that changes rows (but INSERT .. EXEC)."""
        self._refuse_doomed()
        execution = Execution(self.context, self.workspace, frame)
        self.workspace.frame = frame
        before = dict(frame.values) if isinstance(node, Update) else {}
        running = Running(self._plan(node, frame), execution, node)

        def body() -> int:
            plan = running.plan
            if running.runs:
                frame.values.update(before)  # what its rows set
            if plan is None or running.runs:
                # The statement is repeated: a table may have changed while it was waited for.
                plan = running.plan = self._plan(node, frame)
            running.runs += 1
            running.execution.now = None
            running.target = plan.target
            begin(plan.target)
            return plan.run(running.execution)

        return self._written(body, _COMMANDS[type(node)], running, frame)

    def _plan(self, node: Statement, frame: Frame) -> ChangePlan:
        """The plan of a data statement."""
        return self.planner.cached(node, frame, lambda c: _compiled(c, node))

    def _refuse_doomed(self) -> None:
        """3930: nothing may be written in a transaction that can only roll back."""
        if self.workspace.doomed and self.context.store.trancount:
            raise messages.error(3930)

    def _written(
        self,
        body: Callable[[], int],
        command: str,
        running: Running,
        frame: Frame,
    ) -> Iterator[Event]:
        """Runs a writing statement and its triggers atomically, then reports what they did."""

        def body_with_output() -> int:
            running.events.clear()
            self.context.store.take_cascades()
            work = self.context.store.work
            work.ignored_duplicates = False
            count = body()
            if work.ignored_duplicates:
                self.workspace.owed.add(DUPLICATE_IGNORED)
            output = running.plan.output if running.plan is not None else None
            if output is not None and output.into is not None:
                into = self._into_plan(output, output.into, frame)
                types = [c.type for c in output.columns]
                into.write(running.execution, self._converted(into, types, output.collected))
            cascades = self.context.store.take_cascades()
            if running.target is not None:
                self.fire(running.target, running.node, cascades, count, frame, running.events)
            return count

        execution = running.execution
        plan = running.plan
        is_single = isinstance(plan, InsertPlan) and plan.is_single
        try:
            if frame.is_function:  # it writes to table variables, which no transaction undoes
                count = body_with_output()
            else:
                kind = command.upper()
                count = self.context.store.run(body_with_output, kind, is_single=is_single)
        except (apsw.SQLError, apsw.TooBigError) as error:
            raise translated(error) from error
        except SqlError:
            if self.context.store.trancount == 0:
                self.workspace.doomed = False
            yield from running.events
            raise
        finally:
            self.workspace.row_sets.drop(execution.row_sets)
            execution.row_sets = []
        yield from running.events
        output = running.plan.output if running.plan is not None else None
        if output is not None and output.into is None:
            yield from output.events()
        self.context.rowcount = count
        if self.workspace.owed:
            yield from owed_messages(self.workspace)
        yield StatementDone(command, None if self.context.options.nocount else count)

    def _into_plan(self, output: OutputPlan, into: TargetName, frame: Frame) -> InsertPlan:
        """The table that OUTPUT .. INTO fills."""
        compilation = Compilation(self.context, self.workspace, frame)
        target = resolve_target(compilation, into)
        if isinstance(target, TriggeredTarget):
            shown = into.name if isinstance(into.name, str) else messages.dotted(into.name)
            raise messages.error(331, shown)
        compilation.access.change(target, "INSERT")
        given = given_positions(compilation, target, output.into_columns)
        if len(given) != len(output.columns):
            raise messages.error(213)
        return empty_plan(compilation, target, given)

    def _converted(
        self, plan: InsertPlan, types: list[Any], rows: list[tuple[StorageValue, ...]]
    ) -> list[list[Any]]:
        """Rows of some types as given values of an INSERT."""
        semantics = self.context.options.semantics
        conversions = []
        for position, source in zip(plan.given, types, strict=True):
            column = plan.target.table.columns[position]
            check_allowed(source, column.type, explicit=False)
            shown = plan.target.shown
            convert = column_assigner(source, column.type, shown, column.name, semantics)
            if convert is not None and semantics.is_lenient:
                convert = quiet(convert, self.workspace.owed.add)
            conversions.append(convert)
        converted = []
        cancelled = self.context.cancelled
        for row in rows:
            if cancelled.is_set():
                raise messages.cancelled()
            converted.append(
                [
                    value if convert is None or value is None else convert(value)
                    for convert, value in zip(conversions, row, strict=True)
                ]
            )
        return converted

    def insert_result(
        self, node: Insert, execute: Callable[[], Iterator[Event]], frame: Frame
    ) -> Iterator[Event]:
        """``INSERT .. EXEC``: the rows of every result set go into the table.

        Args:
            execute: runs what follows EXEC; it belongs to the statement.

        Raises:
            SqlError: 8164 inside another one, 213, and what INSERT raises.
        """
        if self.workspace.in_insert_exec:
            raise messages.error(8164)
        self._refuse_doomed()
        running = Running(None, Execution(self.context, self.workspace, frame), node)

        def body() -> int:
            compilation = Compilation(self.context, self.workspace, frame)
            target = resolve_target(compilation, node.target)
            plan = empty_plan(
                compilation, target, given_positions(compilation, target, node.columns)
            )
            compilation.access.change(target, "INSERT")
            rows = self._executed(plan, execute, running.events)
            running.target = target
            begin(target)
            return plan.write(running.execution, rows)

        yield from self._written(body, "insert", running, frame)

    def bulk_load(self, node: InsertBulk, frame: Frame) -> Iterator[Event]:
        """INSERT BULK, and the load itself when its rows have come.

        Constraints are always checked; triggers fire, and NULL stays NULL where the column has a
        default, only when the options say so. Identity values come from the client if it sends
        them.
        """
        compilation = Compilation(self.context, self.workspace, frame)
        target = resolve_target(compilation, node.target)
        compilation.access.change(target, "INSERT")
        if isinstance(target, TriggeredTarget) and "FIRE_TRIGGERS" not in node.options:
            target = target.stored
        with _identity_allowed(self.context, target, node.columns):
            given = given_positions(compilation, target, node.columns)
            plan = empty_plan(compilation, target, given)
            if node.rows is None:
                self.workspace.bulk_load = node
                yield StatementDone("other", None)
                return
            if node.rows and len(node.types) != len(given):
                raise messages.error(4816)
            rows = self._converted(plan, list(node.types), list(node.rows))
            if "KEEP_NULLS" not in node.options:
                rows = [plan.with_defaults(row) for row in rows]
            running = Running(None, Execution(self.context, self.workspace, frame), node)
            running.target = plan.target

            def body() -> int:
                begin(plan.target)
                return plan.write(running.execution, rows)

            yield from self._written(body, "insert", running, frame)

    def _executed(
        self, plan: InsertPlan, execute: Callable[[], Iterator[Event]], told: list[Event]
    ) -> list[list[Any]]:
        """The rows of every result set, as given values; everything else is sent to the client."""
        rows: list[list[Any]] = []
        types: list[Any] = []
        self.workspace.in_insert_exec = True
        try:
            with self.context.store.insert_exec():
                for event in execute():
                    if isinstance(event, ResultSet):
                        types = [c.type for c in event.columns]
                        if len(types) != len(plan.given):
                            raise messages.error(213, state=7, aborts=Aborts.BATCH)
                    elif isinstance(event, Rows):
                        rows += self._converted(plan, types, list(event.rows))
                    elif not isinstance(event, StatementDone):
                        told.append(event)
        finally:
            self.workspace.in_insert_exec = False
        return rows

    def truncate(self, node: Truncate, frame: Frame) -> Iterator[Event]:
        """TRUNCATE TABLE.

        Raises:
            SqlError: 4701 no such table, 1088 no ALTER on it, 4711, 4712; 3930.
        """
        self._refuse_doomed()
        try:
            target = resolve_target(Compilation(self.context, self.workspace, frame), node.target)
        except SqlError as error:
            if error.number != 208:
                raise
            raise messages.error(4701, node.target.name[-1], line=node.line) from error
        authorize_truncate(self.context, target)
        self.context.store.run(lambda: target.truncate(self.context), "TRUNCATE TABLE")
        yield StatementDone("other", None)


@contextmanager
def _identity_allowed(
    context: SessionContext, target: Target, columns: Sequence[str]
) -> Iterator[None]:
    """Lets a bulk load give the values of an identity column that it names."""
    folded = {name.casefold() for name in columns}
    before = context.options
    if any(c.identity and c.name.casefold() in folded for c in target.table.columns):
        context.set_option("identity_insert", target.table.object_id)
    try:
        yield
    finally:
        context.options = before


def begin(target: Target) -> None:
    """A statement begins, perhaps again: nothing is written yet."""
    if isinstance(target, TriggeredTarget):
        target.begin()


def _compiled(compilation: Compilation, node: Statement) -> ChangePlan:
    """Compiles a data statement."""
    plan = _plan_of(compilation, node)
    refuse_output(plan.target, node)
    require_for_change(compilation.semantics, plan.target.table, _COMMANDS[type(node)].upper())
    return plan


def _plan_of(compilation: Compilation, node: Statement) -> ChangePlan:
    """The plan of a data statement."""
    if isinstance(node, Insert):
        return InsertCompiler(compilation, node).compile()
    if isinstance(node, Update):
        return ChangeCompiler(compilation).update(node)
    if isinstance(node, Delete):
        return ChangeCompiler(compilation).delete(node)
    return MergeCompiler(
        compilation, known(node if isinstance(node, Merge) else None, "data statement")
    ).compile()
