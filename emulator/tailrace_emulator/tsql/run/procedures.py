"""EXEC: system procedures and stored procedures (text that runs: dynamic_text.py)."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, Final

from tailrace_emulator import messages
from tailrace_emulator.catalog.extensions import extension
from tailrace_emulator.catalog.names import name_of_its_session
from tailrace_emulator.catalog.procedure_registry import Procedure, Required
from tailrace_emulator.catalog.procedures import find_procedure
from tailrace_emulator.messages.errors import Aborts, SqlError, not_supported
from tailrace_emulator.security.access import of_object
from tailrace_emulator.tsql.certain import known
from tailrace_emulator.tsql.compile.access import acting_as, chain_of, require
from tailrace_emulator.tsql.compile.arguments import (
    Given,
    bind_arguments,
    convert_argument,
    missing_argument,
    place_of,
)
from tailrace_emulator.tsql.compile.frames import Frame
from tailrace_emulator.tsql.compile.names import module_name
from tailrace_emulator.tsql.compile.user_types import with_types
from tailrace_emulator.tsql.conversions import convert
from tailrace_emulator.tsql.definition.options import options_of, put_options
from tailrace_emulator.tsql.run.described import (
    describe_first_result_set,
    describe_undeclared_parameters,
)
from tailrace_emulator.tsql.run.dynamic_text import execute_sql
from tailrace_emulator.tsql.run.refreshing import refreshing
from tailrace_emulator.tsql.run.signals import ReturnSignal
from tailrace_emulator.tsql.run.table_arguments import take_table
from tailrace_emulator.tsql.run.type_procedures import type_procedure
from tailrace_emulator.tsql.syntax.definition_statements import CreateModule
from tailrace_emulator.tsql.syntax.nodes import GlobalVariable, Name, Variable
from tailrace_emulator.tsql.syntax.parser import parse_module
from tailrace_emulator.tsql.syntax.statements import Argument, Execute
from tailrace_emulator.tsql.syntax.type_names import NamedType
from tailrace_emulator.values.results import (
    ErrorMessage,
    Event,
    ReturnStatus,
    ReturnValue,
)
from tailrace_emulator.values.types import INT, MAX, StorageValue, nvarchar

if TYPE_CHECKING:
    from tailrace_emulator.catalog.set_options import SetOptions
    from tailrace_emulator.storage.catalog_state import Module
    from tailrace_emulator.storage.engine import Database
    from tailrace_emulator.tsql.run.running import StatementRunner

NESTING_MAX: Final = 32
_DESCRIBING: Final = {
    "sp_describe_first_result_set": describe_first_result_set,
    "sp_describe_undeclared_parameters": describe_undeclared_parameters,
}


class ProcedureRunner:
    """Calls procedures for one interpreter."""

    def __init__(self, interpreter: StatementRunner) -> None:
        self.interpreter = interpreter
        self.context = interpreter.context

    # EXEC ---------------------------------------------------------------------------------------

    def execute(self, node: Execute, frame: Frame) -> Iterator[Event]:
        """``EXEC [@rc =] procedure arguments``."""
        name = node.procedure
        if isinstance(name, str):
            value = frame.values.get(name.casefold())
            if name.casefold() not in frame.types:
                raise messages.undeclared_variable(name, node.line)
            name = tuple(str(value or "").replace("[", "").replace("]", "").split("."))
        given = [self._given(argument, frame) for argument in node.arguments]
        targets = [
            argument.value.name.casefold()
            if argument.output and isinstance(argument.value, Variable)
            else None
            for argument in node.arguments
        ]
        status = 0
        for event in self.call(name, given, frame, node.line):
            if isinstance(event, ReturnValue):
                self._take_output(event, targets, frame)
            elif isinstance(event, ReturnStatus):
                status = event.value
                if not self._in_procedure(frame):
                    yield event
            else:
                yield event
        if node.result is not None:
            target = frame.types.get(node.result.casefold())
            if target is None:
                raise messages.undeclared_variable(node.result, node.line)
            frame.values[node.result.casefold()] = convert(status, INT, target)

    def _in_procedure(self, frame: Frame) -> bool:
        """Whether the call is in a procedure or dynamic text, whose status is its own."""
        return frame.depth > 0

    def _given(self, argument: Argument, frame: Frame) -> Given:
        """An argument's value."""
        name = argument.name or ""
        if argument.value is None:
            return Given(name, INT, None, is_default=True)
        if isinstance(argument.value, Variable):
            folded = argument.value.name.casefold()
            if folded in frame.tables:
                return Given(name, INT, None, table=frame.tables[folded])
            if folded not in frame.types:
                raise messages.undeclared_variable(argument.value.name)
            return Given(name, frame.types[folded], frame.values[folded], argument.output)
        if argument.output:
            raise messages.error(179)
        plan, sql_type = self.interpreter.planner.scalar(argument.value, frame)
        value = self.interpreter.queries.scalar(plan, frame)
        if value is None and not isinstance(argument.value, GlobalVariable):
            sql_type = INT
        return Given(name, sql_type, value)

    def _take_output(self, event: ReturnValue, targets: Sequence[str | None], frame: Frame) -> None:
        """An OUTPUT parameter's final value into the variable that was its argument."""
        variable = targets[event.position]
        if variable is not None:
            frame.values[variable] = convert(event.value, event.type, frame.types[variable])

    # Calls --------------------------------------------------------------------------------------

    def call(
        self, name: Name, given: Sequence[Given], frame: Frame, line: int = 1
    ) -> Iterator[Event]:
        """A procedure by name: ends with its outputs and its return status.

        Raises:
            SqlError: 2812 unknown, 201, 8144, 8145 wrong arguments, 217 nested too deep.
        """
        folded = name[-1].casefold()
        if folded == "sp_executesql":
            yield from execute_sql(self, given, frame)
            return
        if folded in _DESCRIBING:
            yield from self._describe(folded, given)
            return
        schema = name[-2] if len(name) > 1 else None
        database = self._database(name)
        if schema is None or schema.casefold() != "sys":
            where = module_name(self.context, name, line) if len(name) <= 3 else None
            if where is not None and name[-1].startswith("#"):
                database = self.context.database  # that of its caller, not tempdb
            module = where.database.module(where.schema, where.name) if where else None
            if module is not None and module.type == "P":
                yield from self._call_module(module, database, given, frame)
                return
        definer = self.interpreter.definer
        procedure = refreshing(definer, folded) or type_procedure(definer, folded)
        procedure = procedure or find_procedure(self.context, schema or None, name[-1])
        if procedure is None:
            refused = extension(self.context.engine).refused_in_msdb
            if database.name == "msdb" and folded in refused:
                raise not_supported(f"msdb.dbo.{folded}")
            raise messages.missing_procedure(messages.dotted(name))
        if database is not self.context.database:
            self.context.security.user(database)
        with self.inside(database):
            for event in self._call_system(procedure, given):
                if not isinstance(event, ReturnValue):
                    yield event
                elif (place := _asked(event, procedure, given)) is not None:
                    yield event._replace(position=place)

    def _describe(self, procedure: str, given: Sequence[Given]) -> Iterator[Event]:
        """``EXEC sp_describe_.. @tsql, @params``: about a text, without running it."""
        text = nvarchar(MAX)
        declared = [("@tsql", text), ("@params", text), ("@browse_information_mode", INT)]
        bound = bind_arguments(procedure, declared, given)
        if "@tsql" not in bound:
            raise missing_argument(procedure, "@tsql")
        parameters = bound.get("@params")
        describe = _DESCRIBING[procedure]
        yield from describe(
            self.interpreter.planner,
            str(bound["@tsql"].value or ""),
            str(parameters.value or "") if parameters is not None else "",
        )

    def _database(self, name: Name) -> Database:
        """The database that a procedure's name means."""
        if len(name) < 3 or not name[-3]:
            return self.context.database
        found = self.context.engine.databases.get(name[-3].casefold())
        if found is None:
            raise messages.missing_procedure(messages.dotted(name))
        return found

    @contextlib.contextmanager
    def inside(self, database: Database) -> Iterator[None]:
        """A database is the current one."""
        old = self.context.database
        self.context.database = database
        try:
            yield
        finally:
            self.context.database = old

    def _call_system(self, procedure: Procedure, given: Sequence[Given]) -> Iterator[Event]:
        """A procedure of the catalog."""
        declared = [(p.name, p.type) for p in procedure.parameters]
        bound = bind_arguments(procedure.name, declared, given)
        values: dict[str, StorageValue] = {}
        for parameter in procedure.parameters:
            argument = bound.get(parameter.name.casefold())
            if argument is not None and not argument.is_default:
                values[parameter.name] = convert_argument(
                    argument, parameter.type, procedure.name, parameter.name
                )
            elif isinstance(parameter.default, Required):
                raise missing_argument(procedure.name, parameter.name)
            else:
                values[parameter.name] = parameter.default
        try:
            yield from procedure.run(self.context, values)
        except SqlError as error:
            error.procedure = error.procedure or procedure.name
            if self.interpreter.try_depth or not is_reported_by_procedures(error):
                raise
            self.context.last_error, self.context.rowcount = error.number, 0
            yield ErrorMessage(
                error.number,
                error.message,
                error.severity,
                error.state,
                error.procedure,
                error.line,
            )
            yield ReturnStatus(FAILURE)

    def _call_module(
        self, module: Module, database: Database, given: Sequence[Given], caller: Frame
    ) -> Iterator[Event]:
        """A stored procedure."""
        statement = parse_module(module.text, module.uses_quoted_identifier)
        if not isinstance(statement, CreateModule):
            raise messages.missing_procedure(module.name)
        shown = name_of_its_session(module.name)
        statement = with_types(database, statement)
        body = known(statement.body, "procedure body")
        if not module.name.startswith("#"):
            require(self.context, caller.chain, of_object(database, module), "EXECUTE")
        frame = self.frame(caller, shown)
        frame.module_id = module.object_id
        frame.chain = chain_of(database, module)
        bound = bind_arguments(shown, [(p.name, p.type) for p in statement.parameters], given)
        for parameter in statement.parameters:
            argument = bound.get(parameter.name.casefold())
            if isinstance(parameter.type, NamedType):
                named = (parameter.name, parameter.type)
                take_table(self.interpreter, database, frame, named, argument)
                continue
            frame.declare(parameter.name, parameter.type)
            folded = parameter.name.casefold()
            if argument is not None and not argument.is_default:
                frame.values[folded] = convert_argument(
                    argument, frame.types[folded], shown, parameter.name
                )
            elif parameter.default is None:
                raise missing_argument(shown, parameter.name)
            else:
                frame.values[folded] = self.interpreter.evaluate(
                    parameter.default, frame, frame.types[folded]
                )
        clause = statement.execute_as
        with self.inside(database), acting_as(self.context, database, module, clause):
            yield from self.counted(self.run_body(body, frame, module), frame)
        for parameter in statement.parameters:
            argument = bound.get(parameter.name.casefold())
            if parameter.output and argument is not None and argument.output:
                value = frame.values[parameter.name.casefold()]
                yield ReturnValue(parameter.name, parameter.type, value, place_of(argument, given))
        yield ReturnStatus(frame.return_value)

    def frame(self, caller: Frame, procedure: str = "") -> Frame:
        """A frame below the caller's.

        Raises:
            SqlError: 217 beyond the nesting limit.
        """
        if caller.depth >= NESTING_MAX:
            raise messages.error(217, 32)
        return Frame(
            depth=caller.depth + 1,
            procedure=procedure,
            collation=self.context.database.collation,
            handled=list(caller.handled),
        )

    def run_body(self, body: Any, frame: Frame, module: Module | None = None) -> Iterator[Event]:
        """Statements in a scope of their own.

        Its local tables and SET options end with it, and it has a SCOPE_IDENTITY() of its own.

        Args:
            module: the procedure or trigger whose they are; None for dynamic text.
        """
        workspace, context = self.interpreter.workspace, self.context
        before = set(workspace.temporary)
        options, scope_identity = context.options, context.scope_identity
        context.scope_identity = None
        if module is not None:
            context.options = options_of(options, module)
        frame.impersonations = context.security.depth
        try:
            yield from self.interpreter.block(body.statements, frame)
        except ReturnSignal:
            pass
        finally:
            self._restore(options)
            context.security.revert(frame.impersonations)
            context.scope_identity = scope_identity
            for name in set(workspace.temporary) - before:
                workspace.temporary.pop(name).drop()
                workspace.local_version += 1
            drop_tables(frame)

    def counted(self, running: Iterator[Event], frame: Frame) -> Iterator[Event]:
        """A procedure or dynamic text, which is to leave as many transactions as it found.

        An error of its compilation ends it, and its caller continues.

        Raises:
            SqlError: 266 where a TRY is around; it is reported otherwise.
        """
        store, options = self.context.store, self.context.options
        before = store.trancount
        try:
            yield from running
        except SqlError as error:
            raise self.reported(error, frame) from error.__cause__
        now = store.trancount
        begun_implicitly = options.implicit_transactions and before == 0
        if now == before or begun_implicitly or options.xact_abort:
            return
        mismatch = messages.error(266, before, now, procedure=frame.procedure)
        if self.interpreter.try_depth:
            self.interpreter.raised_in(mismatch, frame)
            raise mismatch
        self.context.last_error = mismatch.number
        yield ErrorMessage(
            266, mismatch.message, mismatch.severity, mismatch.state, mismatch.procedure, 0
        )

    def reported(self, error: SqlError, frame: Frame) -> SqlError:
        """An error on its way out of a scope."""
        self.interpreter.raised_in(error, frame)
        if error.aborts == Aborts.SCOPE:
            error.aborts = Aborts.REPORTED
        return error

    def _restore(self, options: SetOptions) -> None:
        """SET options as they were before a scope."""
        if self.context.options is not options:
            put_options(self.context, options)


FAILURE: Final = 1
"""What a system procedure returns after its own error message: "0 (success) or 1 (failure)"."""
RAISED_NUMBERS: Final = range(13_000, 50_000)
"""What RAISERROR can send by number: the messages of procedures. Below are the engine's own."""


def is_reported_by_procedures(error: SqlError) -> bool:
    """Whether a system procedure sends an error itself and continues to RETURN (1)."""
    return (
        error.number in RAISED_NUMBERS and error.aborts == Aborts.STATEMENT and error.severity < 20
    )


def drop_tables(frame: Frame) -> None:
    """Table variables end with their frame."""
    for name, table in frame.tables.items():
        if name not in frame.borrowed:
            table.drop()
    frame.tables.clear()


def _asked(event: ReturnValue, procedure: Procedure, given: Sequence[Given]) -> int | None:
    """Which argument wants an output of a system procedure; None where the caller does not."""
    names = [parameter.name for parameter in procedure.parameters]
    for position, argument in enumerate(given):
        name = argument.name or names[position]
        if argument.output and name.casefold() == event.name.casefold():
            return position
    return None
