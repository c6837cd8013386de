"""Runs SET of options, of CONTEXT_INFO and of IDENTITY_INSERT."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, Final

from tailrace_emulator import messages
from tailrace_emulator.catalog.session_options import user_options
from tailrace_emulator.tsql.compile.compiler import Compilation
from tailrace_emulator.tsql.compile.named_targets import resolve_target
from tailrace_emulator.tsql.definition.options import set_option
from tailrace_emulator.tsql.syntax.statements import SetIdentityInsert, SetOption
from tailrace_emulator.tsql.syntax.switches import SetContextInfo, UserOptions
from tailrace_emulator.values.results import Message
from tailrace_emulator.values.types import varbinary

if TYPE_CHECKING:
    from tailrace_emulator.tsql.compile.frames import Frame
    from tailrace_emulator.tsql.run.running import StatementRunner
    from tailrace_emulator.values.results import Event

CONTEXT_INFO_BYTES: Final = 128
_OF_MODULES: Final = frozenset({"ANSI_NULLS", "QUOTED_IDENTIFIER"})
"""In a module they are as they were when it was created."""


class SetStatements:
    """The SET statements of one session."""

    def __init__(self, interpreter: StatementRunner) -> None:
        self.interpreter = interpreter
        self.context = interpreter.context
        self.workspace = interpreter.workspace

    def methods(self) -> dict[type, Callable[[Any, Frame], Iterator[Event]]]:
        """The statements that it runs."""
        return {
            SetOption: self._set_option,
            SetContextInfo: self._set_context_info,
            SetIdentityInsert: self._set_identity_insert,
            UserOptions: self._user_options,
        }

    def _set_option(self, node: SetOption, frame: Frame) -> Iterator[Event]:
        value = node.value
        if value.startswith("@"):
            folded = value.casefold()
            if folded not in frame.types:
                raise messages.undeclared_variable(value, node.line)
            value = str(frame.values[folded] or 0)
        for option in node.options:
            if frame.module_id and option in _OF_MODULES:
                continue
            yield from set_option(self.context, option, value)

    def _user_options(self, node: UserOptions, _: Frame) -> Iterator[Event]:
        yield from user_options(self.context)
        if not node.silent:
            yield Message(2528, messages.text(2528), 0, 1, "", node.line)

    def _set_context_info(self, node: SetContextInfo, frame: Frame) -> Iterator[Event]:
        yield from ()
        value = self.interpreter.evaluate(node.value, frame, varbinary(CONTEXT_INFO_BYTES))
        given = value if isinstance(value, bytes) else b""
        self.context.context_info = given.ljust(CONTEXT_INFO_BYTES, b"\0")

    def _set_identity_insert(self, node: SetIdentityInsert, frame: Frame) -> Iterator[Event]:
        yield from ()
        context = self.context
        target = resolve_target(Compilation(context, self.workspace, frame), node.target)
        if not any(c.identity for c in target.table.columns):
            raise messages.error(8106, messages.dotted(node.target.name))
        known = context.options.identity_insert
        if not node.on:
            if known == target.table.object_id:
                context.set_option("identity_insert", None)
        elif known is not None and known != target.table.object_id:
            raise messages.error(8107, messages.dotted(node.target.name))
        else:
            context.set_option("identity_insert", target.table.object_id)
