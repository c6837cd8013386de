"""Runs SELECT of every kind: rows to the client, values into variables, a new table."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from itertools import islice
from typing import TYPE_CHECKING, Final

import apsw

from tailrace_emulator import messages
from tailrace_emulator.catalog.names import GLOBAL_PREFIX, is_local_temporary
from tailrace_emulator.messages.errors import SqlError, not_supported
from tailrace_emulator.storage import ddl as store_ddl
from tailrace_emulator.storage.model import Column
from tailrace_emulator.storage.stage import Stage
from tailrace_emulator.storage.transaction import StatementRestart
from tailrace_emulator.tsql.compile.arithmetic import arithmetic
from tailrace_emulator.tsql.compile.encoded_select import EncodedRun, encoded_run
from tailrace_emulator.tsql.compile.masks import masked_query
from tailrace_emulator.tsql.compile.names import creation_name
from tailrace_emulator.tsql.compile.plan import Execution, Plan
from tailrace_emulator.tsql.compile.planner import Planner, assigned
from tailrace_emulator.tsql.compile.queries import QueryCompiler
from tailrace_emulator.tsql.compile.running_assignment import mentions, running_assignment
from tailrace_emulator.tsql.compile.sequence_rules import refuse_next_values
from tailrace_emulator.tsql.compile.values import Value
from tailrace_emulator.tsql.definition.ddl import Definer
from tailrace_emulator.tsql.definition.definition_access import authorize_new_table
from tailrace_emulator.tsql.definition.global_tables import make_room
from tailrace_emulator.tsql.run.large_rows import cut_values, is_limited
from tailrace_emulator.tsql.run.owed_messages import owed_messages
from tailrace_emulator.tsql.run.select_into import new_columns
from tailrace_emulator.tsql.syntax.nodes import Name, Query, Select
from tailrace_emulator.tsql.syntax.statements import QueryStatement
from tailrace_emulator.values.results import EncodedRows, Event, ResultSet, Rows, StatementDone
from tailrace_emulator.values.types import StorageValue

if TYPE_CHECKING:
    from tailrace_emulator.catalog.context import SessionContext
    from tailrace_emulator.tsql.compile.compiler import Compilation
    from tailrace_emulator.tsql.compile.frames import Frame
    from tailrace_emulator.tsql.compile.workspace import Workspace

ROWS_PER_EVENT: Final = 1024
RESTARTS_MAX: Final = 50
RUNS_MAX: Final = 64

Row = tuple[StorageValue, ...]


@dataclass(frozen=True, slots=True)
class Prepared:
    """A plan with the text and bindings of one execution."""

    plan: Plan
    execution: Execution
    text: str
    bindings: list[StorageValue]
    stage: Stage | None = None
    """All rows, read already: where reading had to wait for others."""


class QueryRunner:
    """Queries of one session."""

    def __init__(
        self, context: SessionContext, workspace: Workspace, planner: Planner, definer: Definer
    ) -> None:
        self.context = context
        self.workspace = workspace
        self.planner = planner
        self.definer = definer
        self._runs: dict[int, tuple[Plan, EncodedRun | None]] = {}
        """By the plan's identity; the plan is kept, so that no other gets it."""

    def select(self, node: QueryStatement, frame: Frame) -> Iterator[Event]:
        """A SELECT statement of any kind."""
        body = node.query.body
        into = node.query.into
        if into is not None:
            yield from self._select_into(node, into, frame)
            return
        if isinstance(body, Select) and any(item.variable for item in body.items):
            self._select_variables(node, body, frame)
            return
        runs: list[EncodedRun] = []

        def make() -> Plan:
            plan = self.planner.select(node, node.query, frame)
            runs.clear()
            run = self._encoded(node, plan)
            if run is None:
                return plan
            runs.append(run)
            return run.plan

        prepared = self.prepare(make, frame)
        count = 0
        yield ResultSet(prepared.plan.columns)
        chunks = self._limited(prepared)
        options = self.context.options
        if is_limited(options) and not self.workspace.in_insert_exec:
            chunks = cut_values(chunks, prepared.plan.columns, options.textsize)
        for rows in chunks:
            count += len(rows)
            yield EncodedRows(rows, runs[0].first, runs[0].count) if runs else Rows(rows)
        self.context.rowcount = count
        if self.workspace.owed:
            yield from owed_messages(self.workspace)
        yield StatementDone("select", None if self.context.options.nocount else count)

    def _encoded(self, node: QueryStatement, plan: Plan) -> EncodedRun | None:
        """The plan that takes kept bytes, where the client is sent rows of a change table."""
        if (
            not self.context.takes_encoded
            or self.workspace.in_insert_exec
            or is_limited(self.context.options)
        ):
            return None
        known = self._runs.get(id(plan))
        if known is None or known[0] is not plan:
            if len(self._runs) >= RUNS_MAX:
                self._runs.clear()
            known = self._runs[id(plan)] = plan, encoded_run(self.context, node.query, plan)
        run = known[1]
        if run is None or self.context.store.reads.has_changed(run.table):
            return None
        return run

    # Running plans ------------------------------------------------------------------------------

    def prepare(self, make: Callable[[], Plan], frame: Frame) -> Prepared:
        """A plan ready to run; planned again when a table changed while it was waited for."""
        try:
            return self._prepare(make, frame)
        finally:
            self.context.store.reads.end_read()

    def _prepare(self, make: Callable[[], Plan], frame: Frame) -> Prepared:
        for _ in range(RESTARTS_MAX):
            plan = make()
            execution = Execution(self.context, self.workspace, frame)
            self.context.store.reads.begin_read()
            try:
                text, bindings = plan.prepare(execution)
                prepared = Prepared(plan, execution, text, bindings)
                if execution.may_wait:
                    return replace(prepared, stage=self._read_all(prepared))
            except StatementRestart:
                self.workspace.row_sets.drop(execution.row_sets)
                continue
            return prepared
        raise not_supported("a table that is never at rest")

    def _read_all(self, prepared: Prepared) -> Stage:
        """Every row, before the first of them is shown.

        Raises:
            StatementRestart: it waited for another transaction, and must read again.
        """
        cursor = self.workspace.connection.cursor()
        try:
            cursor.execute(prepared.text, prepared.bindings)
            return Stage(self.workspace.connection, cursor, chunk_rows=ROWS_PER_EVENT)
        except apsw.SQLError as error:
            raise translated(error) from error
        finally:
            cursor.close(True)

    def chunks(self, prepared: Prepared) -> Iterator[list[Row]]:
        """The rows of a query, as SQLite yields them.

        Raises:
            SqlError: 3617 when the client cancels.
        """
        cancelled = self.context.cancelled
        stage = prepared.stage
        if stage is not None:
            try:
                yield from stage.chunks()
            finally:
                stage.close()
                self.workspace.row_sets.drop(prepared.execution.row_sets)
            return
        cursor = self.workspace.connection.cursor()
        try:
            cursor.execute(prepared.text, prepared.bindings)
            while chunk := list(islice(cursor, ROWS_PER_EVENT)):
                yield chunk
                if cancelled.is_set():
                    raise messages.cancelled()
        except (apsw.SQLError, apsw.TooBigError) as error:
            raise translated(error) from error
        finally:
            cursor.close(True)
            self.workspace.row_sets.drop(prepared.execution.row_sets)

    def _limited(self, prepared: Prepared) -> Iterator[list[Row]]:
        """The rows of a query, as many as SET ROWCOUNT allows."""
        left = self.context.options.rowcount
        if left <= 0:
            yield from self.chunks(prepared)
            return
        chunks = self.chunks(prepared)
        try:
            for rows in chunks:
                yield rows[:left]
                left -= len(rows)
                if left <= 0:
                    return
        finally:
            close = getattr(chunks, "close", None)
            if close is not None:
                close()

    def all_rows(self, make: Callable[[], Plan], frame: Frame) -> list[Row]:
        """Every row of a query."""
        return [row for chunk in self.chunks(self.prepare(make, frame)) for row in chunk]

    def scalar(self, plan: Plan, frame: Frame) -> StorageValue:
        """The one value of an expression's plan."""
        ((value,),) = self.all_rows(lambda: plan, frame)
        return value

    # Variables ----------------------------------------------------------------------------------

    def _select_variables(self, node: QueryStatement, body: Select, frame: Frame) -> None:
        """``SELECT @a = x, @b = y FROM ..``: the last row stays."""
        if not all(item.variable for item in body.items):
            raise messages.error(141, line=node.line)
        names = [str(item.variable).casefold() for item in body.items]
        for item, name in zip(body.items, names, strict=True):
            if name not in frame.types:
                raise messages.undeclared_variable(str(item.variable), node.line)
        compile_plan = running_assignment if _reads_itself(body, set(names)) else _assignment_plan
        self.workspace.frame = frame
        count = 0
        last: Row | None = None
        prepared = self.prepare(
            lambda: self.planner.cached(
                node, frame, lambda c: compile_plan(c, node.query, body, frame)
            ),
            frame,
        )
        for rows in self._limited(prepared):
            count += len(rows)
            last = rows[-1]
        if last is not None:
            frame.values.update(zip(names, last, strict=True))
        self.context.rowcount = count

    # INTO ---------------------------------------------------------------------------------------

    def _select_into(self, node: QueryStatement, into: Name, frame: Frame) -> Iterator[Event]:
        """``SELECT .. INTO t``: makes the table, then fills it."""
        prepared = self.prepare(lambda: self.planner.select(node, node.query, frame), frame)
        columns = new_columns(node.query.body, prepared.plan.columns)
        rows = [row for chunk in self._limited(prepared) for row in chunk]
        count = self._fill_new(into, columns, rows)
        self.context.rowcount = count
        yield from owed_messages(self.workspace)
        yield StatementDone("insert", None if self.context.options.nocount else count)

    def _fill_new(
        self, name: Name, columns: list[Column], rows: list[tuple[StorageValue, ...]]
    ) -> int:
        """Creates a table and inserts rows."""
        if is_local_temporary(name[-1]):
            local = self.definer.create_temporary(name[-1], columns, [], [])
            local.insert(rows)
            return len(rows)
        where = creation_name(self.context, name, 1)
        is_global = where.name.startswith(GLOBAL_PREFIX)
        if is_global:
            make_room(self.context, where.name)
        else:
            authorize_new_table(self.context, where)

        def body() -> int:
            table = store_ddl.create_table(
                self.context.store, where.database, where.schema, where.name, columns
            )
            self.context.store.insert(table, rows)
            if is_global:
                self.workspace.global_tables.add(table.object_id)
            return len(rows)

        return self.context.store.run(body, "INSERT")


def _assignment_plan(compilation: Compilation, query: Query, body: Select, frame: Frame) -> Plan:
    """The query of a SELECT that fills variables, its columns converted to their types."""
    compiled = masked_query(QueryCompiler(compilation).query(query))
    if compilation.sequences:
        refuse_next_values(query)
    texts, changed = [], False
    for n, (item, value) in enumerate(zip(body.items, compiled.columns, strict=True)):
        variable = str(item.variable)
        kept = value if value.is_null else Value(f"v{n}", value.type, value.nullable)
        if item.operator != "=":
            kept = arithmetic(
                item.operator[0], compilation.variable(variable), kept, compilation.semantics
            )
        kept = assigned(kept, frame.types[variable.casefold()])
        changed = changed or kept.sql != f"v{n}"
        texts.append(kept.sql)
    text = compiled.text
    if changed:
        text = f"SELECT {', '.join(texts)} FROM ({text})"
    return compilation.plan(text)


def _reads_itself(body: Select, names: set[str]) -> bool:
    """Whether an expression of the list reads a variable that the list sets."""
    return any(mentions(item.expression, names) or item.operator != "=" for item in body.items)


def translated(error: apsw.Error) -> SqlError:
    """An error of SQLite's own as SQL Server's: of its arithmetic, or of its limits."""
    text = str(error)
    if isinstance(error, apsw.TooBigError):
        return messages.value_too_large()
    if any(limit in text for limit in ("tree is too large", "stack overflow", "Recursion limit")):
        return messages.expression_limit()
    if "too many columns" in text:
        return not_supported("result sets of more than 2000 columns")
    if "integer overflow" in str(error):
        return messages.arithmetic_overflow("bigint")
    if "misuse of aggregate" in text:
        return messages.error(147)
    if "misuse of window function" in text:
        return messages.error(4108)
    if "interrupted" in str(error):
        return messages.cancelled()
    raise error
