"""Batches and procedure calls of one session: T-SQL text in, events out.

The interpreter knows what an error ends. Here is what is left at the end of a batch: open
statements are closed, table variables go, a doomed transaction is rolled back.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from tailrace_emulator import messages
from tailrace_emulator.catalog.context import SessionContext
from tailrace_emulator.messages.errors import SqlError
from tailrace_emulator.serving.invalid_values import check_bulk_load
from tailrace_emulator.tsql.compile.arguments import Given, given_parameters
from tailrace_emulator.tsql.compile.frames import Frame
from tailrace_emulator.tsql.compile.workspace import Workspace
from tailrace_emulator.tsql.definition.global_tables import (
    drop_global_tables,
    drop_temporary_modules,
)
from tailrace_emulator.tsql.definition.options import put_options
from tailrace_emulator.tsql.run.interpreter import Interpreter, error_event
from tailrace_emulator.tsql.run.procedures import drop_tables
from tailrace_emulator.tsql.run.signals import JumpSignal, ReturnSignal
from tailrace_emulator.tsql.run.table_arguments import take_table
from tailrace_emulator.tsql.syntax.bulk_load import InsertBulk
from tailrace_emulator.tsql.syntax.parse_base import TokenCursor
from tailrace_emulator.tsql.syntax.parser import parse_batch
from tailrace_emulator.tsql.syntax.statements import Block
from tailrace_emulator.tsql.syntax.type_names import NamedType
from tailrace_emulator.values.results import Event, Parameter, ReturnStatus, ReturnValue
from tailrace_emulator.values.types import INT, SqlType, StorageValue
from tailrace_emulator.wire.half_pairs import kept_halves, kept_value


class BatchRunner:
    """Runs the requests of one session; not thread-safe."""

    def __init__(self, context: SessionContext) -> None:
        """Prepare the session's connection."""
        self.context = context
        self._initial_database = context.database
        self._workspace = Workspace(context)
        self._interpreter = Interpreter(context, self._workspace)

    def run(self, sql: str, parameters: Sequence[Parameter] = ()) -> Iterator[Event]:
        """A batch, or text with parameters as of sp_executesql.

        Args:
            parameters: typed values; OUTPUT ones come back as ReturnValue at the end.

        Raises:
            SqlError: an error that ended the batch. One that only ended its statement is an
                ErrorMessage among the events.
        """
        self.context.read_dates()
        self._workspace.trim()
        options = self.context.options
        frame = Frame(depth=1 if parameters else 0, collation=self.context.database.collation)
        frame.impersonations = self.context.security.depth if parameters else 0
        for parameter in parameters:
            if not isinstance(parameter.type, NamedType):
                frame.declare(parameter.name, parameter.type, parameter.value)
                continue
            database = self.context.database
            given = Given(parameter.name, INT, parameter.value, table=parameter.table)
            named = (parameter.name, parameter.type)
            take_table(self._interpreter, database, frame, named, given)
        block = parse_batch(kept_halves(sql), quoted_identifier=options.quoted_identifier)
        self._settle(block, ends=bool(parameters))
        if self.context.options.parse_only:
            return
        try:
            yield from self._guarded(self._interpreter.block(block.statements, frame), frame)
        finally:
            if parameters and self.context.options is not options:
                put_options(self.context, options)  # as of sp_executesql, SET ends with it
        for parameter in parameters:
            if parameter.output:
                value = frame.values[parameter.name.casefold()]
                yield ReturnValue(parameter.name, parameter.type, value, parameter.position)

    def _settle(self, block: Block, *, ends: bool) -> None:
        """SET QUOTED_IDENTIFIER and PARSEONLY of a batch hold as soon as it is parsed.

        Args:
            ends: whether it is text with parameters, with which QUOTED_IDENTIFIER ends.
        """
        if block.quoted_identifier is not None and not ends:
            self.context.set_option("quoted_identifier", block.quoted_identifier)
        if block.parse_only is not None:
            self.context.set_option("parse_only", block.parse_only)

    def call(self, procedure: str, parameters: Sequence[Parameter]) -> Iterator[Event]:
        """A procedure by name; ends with its ReturnStatus.

        Raises:
            SqlError: 2812 and what the procedure raises.
        """
        self.context.read_dates()
        self._workspace.trim()
        name = TokenCursor(procedure).dotted_name()
        frame = Frame(collation=self.context.database.collation)
        given = given_parameters(parameters)
        calls = self._interpreter.procedures.call(name, given, frame)
        outputs: list[ReturnValue] = []
        status = ReturnStatus(0)
        for event in self._guarded(calls, frame):
            if isinstance(event, ReturnStatus):
                status = event
            elif isinstance(event, ReturnValue):
                outputs.append(event)
            else:
                yield event
        yield status
        yield from outputs

    def _guarded(self, events: Iterator[Event], frame: Frame) -> Iterator[Event]:
        """Events of a batch, with what its end does."""
        interpreter, store = self._interpreter, self.context.store
        try:
            yield from events
        except ReturnSignal:
            pass
        except JumpSignal as jump:
            raise messages.error(135 if jump.kind == "BREAK" else 136) from jump
        except SqlError as error:
            yield from interpreter.ended(error)
            if error.number != CANCELLED and self._workspace.doomed and store.trancount:
                yield error_event(error)
                yield from interpreter.transactions.rollback()
                raise _uncommittable() from error
            raise
        finally:
            interpreter.try_depth = 0
            if frame.depth:  # as of sp_executesql, EXECUTE AS in it ends with it
                self.context.security.revert(frame.impersonations)
            if frame.tables:
                drop_tables(frame)
                self._workspace.local_version += 1
        if self._workspace.doomed and store.trancount:
            yield from interpreter.transactions.rollback()
            raise _uncommittable()

    def bulk_load(
        self,
        types: Sequence[SqlType],
        rows: Sequence[tuple[StorageValue, ...]],
        wrong_length: int = 0,
    ) -> Iterator[Event]:
        """The rows of the INSERT BULK that came before.

        Args:
            wrong_length: the column, counted from 1, of a value that is longer than its type says.

        Raises:
            SqlError: 4002 when none came; 4815 for a wrong length; 7339 for NaN or infinity; what
                inserting the rows raises.
        """
        frame = Frame(collation=self.context.database.collation)
        node, self._workspace.bulk_load = self._workspace.bulk_load, None
        if node is None:
            raise messages.error(4002)
        if wrong_length:
            raise messages.error(4815, wrong_length)
        check_bulk_load(types, rows, node.columns)
        if any(each.is_character for each in types):
            rows = [tuple(map(kept_value, row)) for row in rows]
        statement = InsertBulk(node.target, node.columns, node.options, types, rows, line=node.line)
        yield from self._guarded(self._interpreter.block((statement,), frame), frame)

    def begin(self, name: str = "") -> Iterator[Event]:
        """A transaction manager request: begin a transaction of that name."""
        yield from self._interpreter.transactions.begin(name or None)

    def commit(self) -> Iterator[Event]:
        """A transaction manager request: commit."""
        yield from self._interpreter.transactions.commit()

    def rollback(self, name: str = "") -> Iterator[Event]:
        """A transaction manager request: roll back everything, or to a savepoint."""
        if name:
            yield from self.run(f"ROLLBACK TRANSACTION [{name.replace(']', ']]')}]")
        else:
            yield from self._interpreter.transactions.rollback()

    def close(self) -> None:
        """The session ends: what it left open is rolled back; its ##tables and procedures go."""
        self.context.store.close()
        made = self._workspace.global_tables
        if made or self.context.engine.abandoned_tables:
            drop_global_tables(self.context.engine, made)
        if self._workspace.temporary_modules:
            drop_temporary_modules(self.context.engine, self._workspace.temporary_modules)

    def reset(self) -> None:
        """RESETCONNECTION: the session is as after its login."""
        store = self.context.store
        if store.trancount:
            for _ in self._interpreter.transactions.rollback():
                pass
        for table in self._workspace.temporary.values():
            table.drop()
        self._workspace.temporary.clear()
        if self._workspace.global_tables:
            drop_global_tables(self.context.engine, self._workspace.global_tables)
            self._workspace.global_tables.clear()
        if self._workspace.temporary_modules:
            drop_temporary_modules(self.context.engine, self._workspace.temporary_modules)
            self._workspace.temporary_modules.clear()
        self._workspace.local_version += 1
        store.application_locks.close()
        self.context.session_values.clear()
        self.context.context_info = None
        self._interpreter.cursors.known.clear()
        self.context.security.reset()
        put_options(self.context, self.context.initial_options)
        self.context.database = self._initial_database
        self.context.rowcount = self.context.last_error = 0
        self.context.scope_identity = None


CANCELLED: Final = 3617
"""The client's attention ended the batch: its transaction stays as it is."""


def _uncommittable() -> SqlError:
    return messages.error(3998)
