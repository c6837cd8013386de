"""Runs statements: control flow, variables, transactions, errors.

Every statement is a generator of events. Errors end the statement, the batch or the transaction
(``SqlError.aborts``). Inside TRY they end the TRY block. Those that would have ended the
transaction leave it open but doomed, as in SQL Server.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from tailrace_emulator import messages
from tailrace_emulator.catalog.configuration import reconfigure
from tailrace_emulator.messages.errors import Aborts, SqlError
from tailrace_emulator.storage.lookups import DefinitionsChanged
from tailrace_emulator.tsql.compile.frames import Frame
from tailrace_emulator.tsql.compile.lenient import ARITHMETIC_ERRORS
from tailrace_emulator.tsql.compile.planner import Planner
from tailrace_emulator.tsql.compile.user_types import declared_table, scalar_type
from tailrace_emulator.tsql.definition.ddl import Definer
from tailrace_emulator.tsql.definition.definition_access import authorize_statement
from tailrace_emulator.tsql.definition.identity_check import check_identity
from tailrace_emulator.tsql.definition.maintenance import MaintenanceRunner
from tailrace_emulator.tsql.definition.partitions import PartitionRunner
from tailrace_emulator.tsql.definition.security import SecurityRunner
from tailrace_emulator.tsql.definition.triggers import TriggerRunner
from tailrace_emulator.tsql.run.cursors import Cursors
from tailrace_emulator.tsql.run.data_runner import DataRunner
from tailrace_emulator.tsql.run.definition_errors import with_scope_of_definitions
from tailrace_emulator.tsql.run.dynamic_text import execute_string
from tailrace_emulator.tsql.run.format_only import format_only, is_formatted
from tailrace_emulator.tsql.run.function_runner import FunctionRunner
from tailrace_emulator.tsql.run.message_statements import MessageStatements
from tailrace_emulator.tsql.run.owed_messages import owed_messages
from tailrace_emulator.tsql.run.procedures import ProcedureRunner
from tailrace_emulator.tsql.run.query_runner import QueryRunner
from tailrace_emulator.tsql.run.set_statements import SetStatements
from tailrace_emulator.tsql.run.signals import JumpSignal, ReturnSignal
from tailrace_emulator.tsql.run.text_runner import TextRunner
from tailrace_emulator.tsql.run.transactions import Transactions
from tailrace_emulator.tsql.run.waiting import wait_ticks
from tailrace_emulator.tsql.syntax.bulk_load import InsertBulk
from tailrace_emulator.tsql.syntax.labels import Goto, GotoSignal, Label, position_of
from tailrace_emulator.tsql.syntax.nodes import Binary, Expression, Select, Variable
from tailrace_emulator.tsql.syntax.sequence_statements import CheckIdentity
from tailrace_emulator.tsql.syntax.statements import (
    Block,
    CursorStatement,
    Declare,
    Delete,
    Execute,
    ExecuteString,
    If,
    Ignored,
    Insert,
    Jump,
    Merge,
    Print,
    QueryStatement,
    RaiseError,
    Return,
    SetIdentityInsert,
    SetOption,
    SetVariable,
    Statement,
    Throw,
    Transaction,
    Truncate,
    TryCatch,
    Update,
    Use,
    WaitFor,
    While,
)
from tailrace_emulator.tsql.syntax.text_statements import UpdateText, WriteText
from tailrace_emulator.values.results import (
    DatabaseChanged,
    ErrorMessage,
    Event,
    Message,
    StatementDone,
)
from tailrace_emulator.values.turns import turns
from tailrace_emulator.values.types import BIGINT, INT, StorageValue, nvarchar

if TYPE_CHECKING:
    from tailrace_emulator.catalog.context import SessionContext
    from tailrace_emulator.tsql.compile.workspace import Workspace

_WRITES: Final = (Insert, Update, Delete, Merge, Truncate, WriteText, UpdateText)
_KEEPS_ERROR: Final = (
    Block, If, While, TryCatch, Execute, ExecuteString, Declare, RaiseError, Jump, Return,
)  # fmt: skip
"""@@ERROR after them is what something inside of them left."""
_NO_ROWS: Final = (
    Print, RaiseError, Transaction, SetOption, SetIdentityInsert, Use, WaitFor, Ignored, Truncate,
)  # fmt: skip
"""@@ROWCOUNT after them is 0."""
_COMPILE_ERRORS: Final = frozenset({102, 137, 156, 207, 208, 209, 1087, 4104})
"""Found when the statement is compiled: a TRY of the same batch does not see them."""


class Interpreter:
    """Runs statements of one session."""

    def __init__(self, context: SessionContext, workspace: Workspace) -> None:
        self.context = context
        self.workspace = workspace
        self.planner = Planner(context, workspace)
        self.definer = Definer(context, workspace)
        self.queries = QueryRunner(context, workspace, self.planner, self.definer)
        self.procedures = ProcedureRunner(self)
        self.triggers = TriggerRunner(self)
        self.data = DataRunner(context, workspace, self.planner, self.triggers.fire)
        self.cursors = Cursors(self)
        self.transactions = Transactions(context, workspace, self.cursors.close_all)
        self.messages = MessageStatements(self)
        self.security = SecurityRunner(self)
        self.try_depth = 0
        workspace.functions = FunctionRunner(self)
        self._raised_at: tuple[SqlError, Frame] | None = None
        self._methods: dict[type, Callable[[Any, Frame], Iterator[Event]]] = {
            **PartitionRunner(context, self.evaluate).methods(),
            **MaintenanceRunner(context).methods(),
            QueryStatement: self.queries.select,
            Insert: self._insert,
            InsertBulk: self.data.bulk_load,
            Update: self.data.change,
            Delete: self.data.change,
            Merge: self.data.change,
            Truncate: self.data.truncate,
            Block: lambda node, frame: self.block(node.statements, frame),
            If: self._if,
            While: self._while,
            TryCatch: self._try,
            Jump: self._jump,
            Return: self._return,
            Declare: self._declare,
            SetVariable: self._set_variable,
            Print: self.messages.print,
            RaiseError: self.messages.raise_error,
            Throw: self.messages.throw,
            Execute: self.procedures.execute,
            ExecuteString: partial(execute_string, self.procedures),
            Transaction: self.transactions.run,
            Use: self._use,
            WaitFor: self._wait_for,
            Ignored: self._ignored,
            CursorStatement: self.cursors.run,
            CheckIdentity: self._check_identity,
            Label: lambda _, __: iter(()),
            Goto: self._goto,
            **self.security.methods,
            **SetStatements(self).methods(),
            **TextRunner(self).methods(),
        }

    # Statements ---------------------------------------------------------------------------------

    def block(self, statements: tuple[Statement, ...], frame: Frame) -> Iterator[Event]:
        """Statements one after the other, or from a label on."""
        position = 0
        while position < len(statements):
            try:
                yield from self.statement(statements[position], frame)
            except GotoSignal as jump:
                found = position_of(statements, jump.name)
                if found is None:
                    raise
                if self.context.cancelled.is_set():
                    raise messages.cancelled() from jump
                position = found
            else:
                position += 1

    def statement(self, node: Statement, frame: Frame) -> Iterator[Event]:
        """One statement, with what an error of it means for the rest.

        Raises:
            SqlError: it ends more than its statement, or a TRY is around.
        """
        context = self.context
        try:
            if context.options.runs_nothing and is_formatted(node, context.options):
                yield from format_only(self.planner, node, frame)
                return
            if (
                context.options.implicit_transactions
                and context.store.trancount == 0
                and _starts_transaction(node)
            ):
                yield from self.transactions.begin()
            yield from self._with_its_lookups(node, frame)
        except SqlError as error:
            error = with_scope_of_definitions(self._located(error, node, frame), node)
            if error.number in ARITHMETIC_ERRORS and _ends_transaction(context):
                error.aborts = Aborts.TRANSACTION
            context.last_error, context.rowcount = error.number, 0
            if self.try_depth or self._ends_batch(error):
                self.workspace.owed.clear()
                raise error from error.__cause__
            yield error_event(error)
            if isinstance(node, _WRITES):
                yield Message(3621, messages.text(3621), 0, 0, "", error.line)
            yield from owed_messages(self.workspace)
            return
        if self.workspace.owed:
            yield from owed_messages(self.workspace)
        if not (context.options.nocount or frame.is_function) and _has_own_end(node):
            # SELECT @variable = counts its rows. See: MS-TDS, DONE: DONE_COUNT and CurCmd.
            counts = isinstance(node, QueryStatement)
            yield StatementDone("select", context.rowcount) if counts else StatementDone("other")
        if isinstance(node, _NO_ROWS) or type(node) not in self._methods:
            context.rowcount = 0
        if not isinstance(node, _KEEPS_ERROR):
            context.last_error = 0

    def _with_its_lookups(self, node: Statement, frame: Frame) -> Iterator[Event]:
        """One statement, which begins again where others changed what it was about to change."""
        lookups = self.context.store.lookups
        while True:
            lookups.forget()
            try:
                authorize_statement(self.context, node)
                method = self._methods.get(type(node))
                if method is not None:
                    yield from method(node, frame)
                else:
                    self.definer.run(node, frame)
            except DefinitionsChanged:  # no event has been sent: DDL comes first
                continue
            finally:
                lookups.forget()
            return

    def _located(self, error: SqlError, node: Statement, frame: Frame) -> SqlError:
        """The error with its line and procedure, the first time that it is seen."""
        if self._raised_at is not None and self._raised_at[0] is error:
            return error
        if error.line == 1 and node.line != 1:
            error.line = node.line
        if frame.procedure and not error.procedure:
            error.procedure = frame.procedure
        self._raised_at = (error, frame)
        return error

    def _ends_batch(self, error: SqlError) -> bool:
        """Whether an error outside of TRY ends more than its statement."""
        if error.severity < 11 or error.aborts == Aborts.REPORTED:
            return False
        return (
            error.aborts != Aborts.STATEMENT
            or error.severity >= 20
            or (self.context.options.xact_abort and error.number != 50000)
        )

    def raised_in(self, error: SqlError, frame: Frame) -> None:
        """Notes where an error came up that no statement has seen yet: text that did not parse."""
        if self._raised_at is None or self._raised_at[0] is not error:
            self._raised_at = (error, frame)

    def ended(self, error: SqlError) -> Iterator[Event]:
        """What a batch does on its way out with an error: roll back if that is called for."""
        if self.context.store.trancount and (
            error.aborts == Aborts.TRANSACTION
            or (
                self.context.options.xact_abort
                and error.aborts not in {Aborts.SCOPE, Aborts.REPORTED}
            )
        ):
            yield from self.transactions.rollback()

    # Control flow -------------------------------------------------------------------------------

    def is_true(self, condition: Expression, frame: Frame) -> bool:
        """Whether a condition holds; unknown does not."""
        plan = self.planner.condition(condition, frame)
        holds = bool(self.queries.scalar(plan, frame))
        self.context.last_error = self.context.rowcount = 0  # IF and WHILE are statements too
        return holds

    def evaluate(self, node: Expression, frame: Frame, target: Any = None) -> StorageValue:
        """The value of an expression, converted to ``target`` as an assignment does."""
        plan, _ = self.planner.scalar(node, frame, target)
        return self.queries.scalar(plan, frame)

    def _if(self, node: If, frame: Frame) -> Iterator[Event]:
        holds = self.is_true(node.condition, frame)
        if self.workspace.owed:
            yield from owed_messages(self.workspace)
        if holds:
            yield from self.statement(node.then, frame)
        elif node.otherwise is not None:
            yield from self.statement(node.otherwise, frame)

    def _while(self, node: While, frame: Frame) -> Iterator[Event]:
        while self.is_true(node.condition, frame):
            if self.workspace.owed:
                yield from owed_messages(self.workspace)
            if self.context.cancelled.is_set():
                raise messages.cancelled()
            try:
                yield from self.statement(node.body, frame)
            except JumpSignal as jump:
                if jump.kind == "BREAK":
                    return

    def _ignored(self, node: Ignored, _: Frame) -> Iterator[Event]:
        yield from ()
        if node.what == "RECONFIGURE":
            reconfigure(self.context.engine)

    def _jump(self, node: Jump, _: Frame) -> Iterator[Event]:
        yield from ()
        raise JumpSignal(node.kind)

    def _goto(self, node: Goto, _: Frame) -> Iterator[Event]:
        yield from ()
        raise GotoSignal(node.name)

    def _return(self, node: Return, frame: Frame) -> Iterator[Event]:
        yield from ()
        if frame.returns is not None and node.value is not None:
            frame.result = self.evaluate(node.value, frame, frame.returns)
        elif node.value is not None:
            value = self.evaluate(node.value, frame, INT)
            frame.return_value = value if isinstance(value, int) else 0
        raise ReturnSignal

    def _try(self, node: TryCatch, frame: Frame) -> Iterator[Event]:
        """TRY .. CATCH."""
        self.try_depth += 1
        caught: SqlError | None = None
        try:
            yield from self.block(node.body.statements, frame)
        except SqlError as error:
            if not self._catches(error, frame):
                raise
            caught = error
        finally:
            self.try_depth -= 1
        if caught is None:
            return
        doomed = caught.aborts == Aborts.TRANSACTION or self.context.options.xact_abort
        if self.context.store.trancount and doomed:
            self.workspace.doomed = True
        frame.handled.append(caught)
        try:
            yield from self.block(node.handler.statements, frame)
        finally:
            frame.handled.pop()

    def _catches(self, error: SqlError, frame: Frame) -> bool:
        """Whether a TRY in ``frame`` sees an error."""
        if error.severity >= 20 or error.number == 3617:
            return False
        if error.number in _COMPILE_ERRORS and self._raised_at is not None:
            return self._raised_at[1] is not frame
        return True

    # Variables and options ----------------------------------------------------------------------

    def _declare(self, node: Declare, frame: Frame) -> Iterator[Event]:
        yield from ()
        database = self.context.database
        for declaration in node.declarations:
            folded = declaration.name.casefold()
            shape = declared_table(database, declaration)
            sql_type = scalar_type(database, declaration.type)
            if sql_type is None:
                known = frame.tables.get(folded)
                if known is not None:
                    known.drop()
                frame.tables[folded] = (
                    self.definer.table_variable(
                        declaration.name, declaration.columns, declaration.constraints, frame
                    )
                    if shape is None
                    else self.definer.typed_variable(declaration.name, shape, frame)
                )
                self.workspace.local_version += 1
                continue
            frame.declare(declaration.name, sql_type, frame.values.get(folded))
            if declaration.value is not None:
                value = self.evaluate(declaration.value, frame, frame.types[folded])
                frame.values[folded] = value

    def _set_variable(self, node: SetVariable, frame: Frame) -> Iterator[Event]:
        yield from ()
        folded = node.name.casefold()
        target = frame.types.get(folded)
        if target is None:
            raise messages.undeclared_variable(node.name, node.line)
        expression = node.value
        if node.operator != "=":
            expression = self._compound(node)
        frame.values[folded] = self.evaluate(expression, frame, target)
        self.context.rowcount = 1

    def _compound(self, node: SetVariable) -> Expression:
        """``@x += y`` as ``@x + y``."""
        return self.workspace.compound(
            node, lambda: Binary(node.operator[0], Variable(node.name), node.value)
        )

    def _insert(self, node: Insert, frame: Frame) -> Iterator[Event]:
        """INSERT; the rows of INSERT .. EXEC come from a statement."""
        if node.execute is None:
            return self.data.change(node, frame)
        execute = node.execute
        return self.data.insert_result(node, lambda: self.statement(execute, frame), frame)

    def _check_identity(self, node: CheckIdentity, frame: Frame) -> Iterator[Event]:
        name = self.evaluate(node.table, frame, nvarchar(776))
        value = None if node.value is None else self.evaluate(node.value, frame, BIGINT)
        seed = value if isinstance(value, int) else None
        yield from check_identity(self.context, node, str(name or ""), seed)

    # The rest -----------------------------------------------------------------------------------

    def use(self, name: str) -> Iterator[Event]:
        """USE.

        Raises:
            SqlError: 911; 916 when the session has no user there.
        """
        old = self.context.database
        new = self.context.engine.database(name)
        self.context.security.user(new)
        self.context.database = new
        yield DatabaseChanged(old.name, new.name, old.collation, new.collation)

    def _use(self, node: Use, _: Frame) -> Iterator[Event]:
        yield from self.use(node.database)

    def _wait_for(self, node: WaitFor, frame: Frame) -> Iterator[Event]:
        yield from ()
        value = self.evaluate(node.value, frame)
        if not isinstance(value, int | str):
            value = "00:00:00"
        seconds = wait_ticks(node.kind, value, self.context.engine.clock.now_ticks()) / 10_000_000
        turns.give()
        if self.context.cancelled.wait(seconds):
            raise messages.cancelled()


def _has_own_end(node: Statement) -> bool:
    """Whether a statement that counts nothing has a DONE: PRINT, SELECT @variable =, cursors."""
    if isinstance(node, Print):
        return True
    if isinstance(node, QueryStatement):
        body = node.query.body
        return isinstance(body, Select) and bool(body.items) and body.items[0].variable is not None
    return isinstance(node, CursorStatement) and (node.action != "FETCH" or bool(node.into))


def _ends_transaction(context: SessionContext) -> bool:
    """Whether an arithmetic error does: ARITHABORT is ON and ANSI_WARNINGS OFF."""
    return context.options.arithabort and not context.options.ansi_warnings


def _starts_transaction(node: Statement) -> bool:
    """Whether IMPLICIT_TRANSACTIONS begins one for a statement; SELECT without FROM does not."""
    if isinstance(node, QueryStatement):
        body = node.query.body
        return not isinstance(body, Select) or body.source is not None
    return isinstance(node, _WRITES)


def error_event(error: SqlError) -> ErrorMessage:
    """An error that ended its statement only."""
    return ErrorMessage(
        error.number, error.message, error.severity, error.state, error.procedure, error.line
    )
