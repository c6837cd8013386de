"""Runs users' functions while the statement that calls them runs.

SQLite calls a scalar function for each row, in the middle of its caller's statement, on the same
connection. The function can only read, and write to its own table variables, so there is nothing of
it to undo.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, Final

from tailrace_emulator import messages
from tailrace_emulator.tsql.certain import known
from tailrace_emulator.tsql.compile.access import Chain, acting_as, chain_of
from tailrace_emulator.tsql.compile.frames import Frame
from tailrace_emulator.tsql.compile.user_types import with_types
from tailrace_emulator.tsql.definition.options import options_of
from tailrace_emulator.tsql.functions.operators import pack
from tailrace_emulator.tsql.run.signals import ReturnSignal
from tailrace_emulator.tsql.syntax.definition_statements import CreateModule
from tailrace_emulator.tsql.syntax.parser import parse_module
from tailrace_emulator.values.types import StorageValue

if TYPE_CHECKING:
    from tailrace_emulator.storage.catalog_state import Module
    from tailrace_emulator.storage.engine import Database
    from tailrace_emulator.tsql.run.running import StatementRunner

NESTING_MAX: Final = 32


class FunctionRunner:
    """Calls functions for one interpreter."""

    def __init__(self, interpreter: StatementRunner) -> None:
        self.interpreter = interpreter
        self._depth = 0

    def scalar(
        self, database: Database, schema: str, name: str, arguments: Sequence[StorageValue]
    ) -> StorageValue:
        """The value of a scalar function.

        Args:
            arguments: storage values of its parameters' types.

        Raises:
            SqlError: 217 nested too deep, and what its statements raise.
        """
        node = self._node(database, schema, name)
        if node.null_on_null and None in arguments:
            return None
        frame = self._frame(node, arguments)
        frame.chain = self._chain(database, schema, name)
        module = known(database.module(schema, name), "function of a plan")
        frame.module_id = module.object_id
        frame.returns = node.returns
        with self._calling(database, module), self._acting(database, schema, name, node):
            self._run(node, frame)
        return frame.result

    def table(
        self, database: Database, schema: str, name: str, arguments: Sequence[StorageValue]
    ) -> list[tuple[Any, ...]]:
        """The rows of a function that fills a table variable; arguments as of :meth:`scalar`."""
        node = self._node(database, schema, name)
        frame = self._frame(node, arguments)
        frame.chain = self._chain(database, schema, name)
        made = known(node.returns_table, "returned table of a function")
        module = known(database.module(schema, name), "function of a plan")
        with self._calling(database, module), self._acting(database, schema, name, node):
            local = self.interpreter.definer.table_variable(
                made.name, made.columns, made.constraints, frame
            )
            frame.tables[made.name.casefold()] = local
            self.interpreter.workspace.local_version += 1
            try:
                self._run(node, frame, keep=local.sqlite_name)
                columns = ", ".join(c.sqlite_name for c in local.table.columns)
                text = f"SELECT {columns} FROM {local.source} ORDER BY rid"
                rows: list[tuple[Any, ...]] = local.connection.execute(text).fetchall()
            finally:
                self._drop(frame)
        return rows

    def packed(
        self, database: Database, schema: str, name: str, arguments: Sequence[StorageValue]
    ) -> str:
        """The rows of :meth:`table` as JSON, for json_each and t_unpack."""
        rows = self.table(database, schema, name, arguments)
        return json.dumps([[pack(value) for value in row] for row in rows])

    def _node(self, database: Database, schema: str, name: str) -> CreateModule:
        module = known(database.module(schema, name), "function of a plan")
        statement = parse_module(module.text, module.uses_quoted_identifier)
        node = known(statement if isinstance(statement, CreateModule) else None, "function")
        return with_types(database, node)

    def _chain(self, database: Database, schema: str, name: str) -> Chain:
        """What belongs to the function's owner is not checked in it."""
        return chain_of(database, known(database.module(schema, name), "function of a plan"))

    def _acting(
        self, database: Database, schema: str, name: str, node: CreateModule
    ) -> contextlib.AbstractContextManager[None]:
        """As whom its statements run."""
        module = known(database.module(schema, name), "function of a plan")
        return acting_as(self.interpreter.context, database, module, node.execute_as)

    def _frame(self, node: CreateModule, arguments: Sequence[StorageValue]) -> Frame:
        frame = Frame(depth=self._depth + 1, procedure=node.name[-1], is_function=True)
        for parameter, value in zip(node.parameters, arguments, strict=True):
            frame.declare(parameter.name, parameter.type, value)
        return frame

    @contextlib.contextmanager
    def _calling(self, database: Database, module: Module) -> Iterator[None]:
        """What the caller's statement must not notice, while a function runs."""
        if self._depth >= NESTING_MAX:
            raise messages.error(217, 32)
        interpreter = self.interpreter
        context, workspace = interpreter.context, interpreter.workspace
        rowcount, last_error, frame = context.rowcount, context.last_error, workspace.frame
        options = context.options
        context.options = options_of(options.changed("implicit_transactions", False), module)
        self._depth += 1
        interpreter.try_depth += 1  # every error goes up to the caller's statement
        try:
            with interpreter.procedures.inside(database):
                yield
        finally:
            interpreter.try_depth -= 1
            self._depth -= 1
            context.options = options
            context.rowcount, context.last_error = rowcount, last_error
            workspace.frame = frame

    def _run(self, node: CreateModule, frame: Frame, keep: str = "") -> None:
        body = known(node.body, "body of a function")
        try:
            for _ in self.interpreter.block(body.statements, frame):
                pass
        except ReturnSignal:
            pass
        finally:
            if not keep:
                self._drop(frame)

    def _drop(self, frame: Frame) -> None:
        if not frame.tables:
            return
        for table in frame.tables.values():
            table.drop()
        frame.tables.clear()
        self.interpreter.workspace.local_version += 1
