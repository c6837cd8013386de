"""Runs SELECT, INSERT, UPDATE, DELETE, MERGE and TRUNCATE of one session."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import islice
from typing import TYPE_CHECKING, Any, Final

import apsw

from emulator.errors import SqlError, not_supported
from emulator.results import Event, ResultSet, Rows, StatementDone
from emulator.storage import ddl as store_ddl
from emulator.storage.model import Column, Identity
from emulator.storage.transaction import StatementRestart
from emulator.tsql import messages
from emulator.tsql.arithmetic import arithmetic
from emulator.tsql.certain import known
from emulator.tsql.change import ChangeCompiler
from emulator.tsql.compiler import Compilation
from emulator.tsql.conversions import assigner, check_allowed
from emulator.tsql.ddl import Definer
from emulator.tsql.insert import InsertCompiler, InsertPlan, empty_plan, given_positions
from emulator.tsql.merge import MergeCompiler
from emulator.tsql.names import resolve_name
from emulator.tsql.nodes import Name, Query, Select, Variable
from emulator.tsql.output import OutputPlan
from emulator.tsql.plan import Execution, Plan
from emulator.tsql.planner import Planner, assigned
from emulator.tsql.queries import QueryCompiler
from emulator.tsql.running_assignment import running_assignment
from emulator.tsql.scope import Scope
from emulator.tsql.statements import (
    Delete,
    Insert,
    Merge,
    QueryStatement,
    Statement,
    Truncate,
    Update,
)
from emulator.tsql.targets import resolve_target
from emulator.tsql.values import Value
from emulator.types import StorageValue

if TYPE_CHECKING:
    from emulator.catalog.context import SessionContext
    from emulator.tsql.frames import Frame
    from emulator.tsql.statements import Target as TargetName
    from emulator.tsql.workspace import Workspace

ROWS_PER_EVENT: Final = 1024
RESTARTS_MAX: Final = 50


class DataRunner:
    """Data statements of one session."""

    def __init__(
        self, context: SessionContext, workspace: Workspace, planner: Planner, definer: Definer
    ) -> None:
        self.context = context
        self.workspace = workspace
        self.planner = planner
        self.definer = definer

    # SELECT -------------------------------------------------------------------------------------

    def select(self, node: QueryStatement, frame: Frame) -> Iterator[Event]:
        """A SELECT statement of any kind."""
        body = node.query.body
        if isinstance(body, Select):
            if body.into is not None:
                yield from self._select_into(node, body, frame)
                return
            if any(item.variable for item in body.items):
                self._select_variables(node, body, frame)
                return
        plan = self.planner.select(node, node.query, frame)
        count = 0
        yield ResultSet(plan.columns)
        for rows in self.chunks(plan, frame):
            count += len(rows)
            yield Rows(rows)
        self.context.rowcount = count
        yield StatementDone("select", None if self.context.options.nocount else count)

    def chunks(self, plan: Plan, frame: Frame) -> Iterator[list[tuple[StorageValue, ...]]]:
        """The rows of a query, as SQLite yields them.

        Raises:
            SqlError: 3617 when the client cancels.
        """
        execution, text, bindings = self._prepare(plan, frame)
        cancelled = self.context.cancelled
        cursor = self.workspace.connection.cursor()
        try:
            cursor.execute(text, bindings)
            while chunk := list(islice(cursor, ROWS_PER_EVENT)):
                yield chunk
                if cancelled.is_set():
                    raise SqlError(
                        3617, "The query was cancelled by the client.", severity=11, aborts="batch"
                    )
        except apsw.SQLError as error:
            raise translated(error) from error
        finally:
            cursor.close(True)
            self.workspace.row_sets.drop(execution.row_sets)

    def _prepare(self, plan: Plan, frame: Frame) -> tuple[Execution, str, list[StorageValue]]:
        """A plan's text and bindings; again when a table changed while it was waited for."""
        for _ in range(RESTARTS_MAX):
            execution = Execution(self.context, self.workspace, frame)
            try:
                text, bindings = plan.prepare(execution)
            except StatementRestart:
                continue
            return execution, text, bindings
        raise not_supported("a table whose definition never rests")

    def all_rows(self, plan: Plan, frame: Frame) -> list[tuple[StorageValue, ...]]:
        """Every row of a query."""
        return [row for chunk in self.chunks(plan, frame) for row in chunk]

    def scalar(self, plan: Plan, frame: Frame) -> StorageValue:
        """The one value of an expression's plan."""
        rows = self.all_rows(plan, frame)
        return rows[0][0]

    def _select_variables(self, node: QueryStatement, body: Select, frame: Frame) -> None:
        """``SELECT @a = x, @b = y FROM ..``: the last row stays."""
        if not all(item.variable for item in body.items):
            raise messages.compile_error(
                141,
                "A SELECT statement that assigns a value to a variable must not be combined with"
                " data-retrieval operations.",
                severity=15,
                line=node.line,
            )
        names = [str(item.variable).casefold() for item in body.items]
        for item, name in zip(body.items, names, strict=True):
            if name not in frame.types:
                raise messages.undeclared_variable(str(item.variable), node.line)

        if _reads_itself(body, set(names)) and body.source is not None:
            plan = self.planner.cached(
                node, frame, lambda c: running_assignment(c, node.query, body, frame)
            )
        else:
            plan = self.planner.cached(
                node, frame, lambda c: self._assignment_plan(c, node.query, body, frame)
            )
        self.workspace.frame = frame
        count = 0
        last: tuple[StorageValue, ...] | None = None
        for rows in self.chunks(plan, frame):
            count += len(rows)
            last = rows[-1]
        if last is not None:
            frame.values.update(zip(names, last, strict=True))
        self.context.rowcount = count

    def _assignment_plan(
        self, compilation: Compilation, query: Query, body: Select, frame: Frame
    ) -> Plan:
        """The query of a SELECT that fills variables, its columns converted to their types."""
        own = body.items
        compiler = QueryCompiler(compilation)
        compiled = compiler.query(query)
        texts, changed = [], False
        for n, (item, value) in enumerate(zip(own, compiled.columns, strict=True)):
            variable = str(item.variable)
            kept = value if value.is_null else Value(f"v{n}", value.type, value.nullable)
            if item.operator != "=":
                kept = arithmetic(item.operator[0], compilation.variable(variable), kept)
            kept = assigned(kept, frame.types[variable.casefold()])
            changed = changed or kept.sql != f"v{n}"
            texts.append(kept.sql)
        text = compiled.text
        if changed:
            text = f"SELECT {', '.join(texts)} FROM ({text})"
        return compilation.plan(text)

    def _select_into(self, node: QueryStatement, body: Select, frame: Frame) -> Iterator[Event]:
        """``SELECT .. INTO t``: makes the table, then fills it."""
        plan = self.planner.select(node, node.query, frame)
        into = known(body.into, "INTO clause")
        columns = []
        for number, meta in enumerate(plan.columns, 1):
            if not meta.name:
                raise messages.compile_error(
                    1038,
                    "An object or column name is missing or empty. For SELECT INTO statements,"
                    " verify each column has a name.",
                    severity=15,
                )
            identity = Identity() if meta.identity else None
            columns.append(Column(number, meta.name, meta.type, meta.nullable, identity))
        rows = self.all_rows(plan, frame)
        count = self._fill_new(into, columns, rows)
        self.context.rowcount = count
        yield StatementDone("insert", None if self.context.options.nocount else count)

    def _fill_new(
        self, name: Name, columns: list[Column], rows: list[tuple[StorageValue, ...]]
    ) -> int:
        """Creates a table and inserts rows."""
        if name[-1].startswith("#"):
            local = self.definer.create_temporary(name[-1], columns, [], [])
            local.insert(rows)
            return len(rows)
        where = resolve_name(self.context, name, 1)

        def body() -> int:
            table = store_ddl.create_table(
                self.context.store, where.database, where.schema, where.name, columns
            )
            self.context.store.insert(table, rows)
            return len(rows)

        return self.context.store.run(body, "INSERT")

    # INSERT, UPDATE, DELETE, MERGE --------------------------------------------------------------

    def change(self, node: Statement, frame: Frame) -> Iterator[Event]:
        """A statement that changes rows (but INSERT .. EXEC)."""
        self._refuse_doomed()
        plan, command = self._plan(node, frame)
        execution = Execution(self.context, self.workspace, frame)

        def body() -> int:
            execution.now = None
            return int(plan.run(execution))

        yield from self._written(body, command, plan.output, frame, execution)

    def _plan(self, node: Statement, frame: Frame) -> tuple[Any, str]:
        """The plan of a data statement, and its word."""
        make: Callable[[Compilation], Any]
        if isinstance(node, Insert):
            make, command = (lambda c: InsertCompiler(c, node).compile()), "insert"
        elif isinstance(node, Update):
            make, command = (lambda c: ChangeCompiler(c).update(node)), "update"
        elif isinstance(node, Delete):
            make, command = (lambda c: ChangeCompiler(c).delete(node)), "delete"
        else:
            merge = known(node if isinstance(node, Merge) else None, "data statement")
            make, command = (lambda c: MergeCompiler(c, merge).compile()), "merge"
        return self.planner.cached(node, frame, make), command

    def _refuse_doomed(self) -> None:
        """3930: nothing may be written in a transaction that can only roll back."""
        if self.workspace.doomed and self.context.store.trancount:
            raise SqlError(
                3930,
                "The current transaction cannot be committed and cannot support operations that"
                " write to the log file. Roll back the transaction.",
                aborts="batch",
            )

    def _written(
        self,
        body: Callable[[], int],
        command: str,
        output: OutputPlan | None,
        frame: Frame,
        execution: Execution,
    ) -> Iterator[Event]:
        """Runs a writing statement atomically, then tells what it did."""
        if output is not None and output.into is not None:
            inner = body
            into = self._into_plan(output, output.into, frame)

            def body_with_output() -> int:
                count = inner()
                self._output_into(into, output, execution)
                return count

            body = body_with_output
        try:
            count = self.context.store.run(body, command.upper())
        except apsw.SQLError as error:
            raise translated(error) from error
        finally:
            self.workspace.row_sets.drop(execution.row_sets)
            execution.row_sets = []
        if output is not None and output.into is None:
            yield from output.events()
        self.context.rowcount = count
        yield StatementDone(command, None if self.context.options.nocount else count)

    def _into_plan(self, output: OutputPlan, into: TargetName, frame: Frame) -> InsertPlan:
        """The table that OUTPUT .. INTO fills."""
        compilation = Compilation(self.context, self.workspace, frame)
        target = resolve_target(compilation, into)
        given = given_positions(compilation, target, output.into_columns)
        if len(given) != len(output.columns):
            raise messages.compile_error(
                213, "Column name or number of supplied values does not match table definition."
            )
        return empty_plan(compilation, target, given)

    def _output_into(self, into: InsertPlan, output: OutputPlan, execution: Execution) -> None:
        """Inserts what OUTPUT collected."""
        types = [c.type for c in output.columns]
        into.write(execution, self._converted(into, types, output.collected))

    def _converted(
        self, plan: InsertPlan, types: list[Any], rows: list[tuple[StorageValue, ...]]
    ) -> list[list[Any]]:
        """Rows of some types as given values of an INSERT."""
        conversions = []
        for position, source in zip(plan.given, types, strict=True):
            column = plan.target.table.columns[position]
            check_allowed(source, column.type, explicit=False)
            conversions.append(assigner(source, column.type, plan.target.shown, column.name))
        return [
            [
                value if convert is None or value is None else convert(value)
                for convert, value in zip(conversions, row, strict=True)
            ]
            for row in rows
        ]

    def insert_result(self, node: Insert, events: Iterator[Event], frame: Frame) -> Iterator[Event]:
        """``INSERT .. EXEC``: the rows of every result set go into the table."""
        compilation = Compilation(self.context, self.workspace, frame)
        target = resolve_target(compilation, node.target)
        given = given_positions(compilation, target, node.columns)
        plan = empty_plan(compilation, target, given)
        pending: list[list[Any]] = []
        types: list[Any] = []
        for event in events:
            if isinstance(event, ResultSet):
                types = [c.type for c in event.columns]
                if len(types) != len(given):
                    raise SqlError(
                        213,
                        "Column name or number of supplied values does not match table definition.",
                        state=7,
                        aborts="batch",
                    )
            elif isinstance(event, Rows):
                pending += self._converted(plan, types, list(event.rows))
            elif not isinstance(event, StatementDone):
                yield event
        execution = Execution(self.context, self.workspace, frame)
        yield from self._written(
            lambda: plan.write(execution, pending), "insert", None, frame, execution
        )

    def truncate(self, node: Truncate, frame: Frame) -> Iterator[Event]:
        """TRUNCATE TABLE."""
        self._refuse_doomed()
        target = resolve_target(Compilation(self.context, self.workspace, frame), node.target)
        self.context.store.run(lambda: target.truncate(self.context), "TRUNCATE TABLE")
        yield StatementDone("other", None)


def _reads_itself(body: Select, names: set[str]) -> bool:
    """Whether an expression of the list reads a variable that the list sets."""
    return any(_mentions(item.expression, names) or item.operator != "=" for item in body.items)


def _mentions(node: Any, names: set[str]) -> bool:
    """Whether a tree holds one of the variables."""
    if isinstance(node, Variable):
        return node.name.casefold() in names
    if isinstance(node, tuple):
        return any(_mentions(item, names) for item in node)
    slots = getattr(type(node), "__slots__", ())
    return any(_mentions(getattr(node, slot), names) for slot in slots)


def translated(error: apsw.SQLError) -> SqlError:
    """An error of SQLite's own arithmetic as SQL Server's."""
    if "integer overflow" in str(error):
        return messages.arithmetic_overflow("bigint")
    if "interrupted" in str(error):
        return SqlError(3617, "The query was cancelled by the client.", severity=11, aborts="batch")
    raise error


__all__ = ["DataRunner", "Scope", "translated"]
