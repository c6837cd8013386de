"""PRINT, RAISERROR and THROW of one session."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from tailrace_emulator import messages
from tailrace_emulator.messages.errors import Aborts
from tailrace_emulator.tsql.conversions import check_allowed, convert
from tailrace_emulator.tsql.conversions.families import is_national
from tailrace_emulator.tsql.functions.message_text import check_substitution
from tailrace_emulator.tsql.run.raise_error import (
    SEVERITY_MAX_WITHOUT_LOG,
    log_option_needed,
    raised,
    thrown,
)
from tailrace_emulator.tsql.syntax.nodes import Expression
from tailrace_emulator.tsql.syntax.statements import Print, RaiseError, Throw
from tailrace_emulator.values.results import Event, Message
from tailrace_emulator.values.types import StorageValue, nvarchar, varchar

if TYPE_CHECKING:
    from tailrace_emulator.tsql.compile.frames import Frame
    from tailrace_emulator.tsql.run.running import StatementRunner

FIXED_ARGUMENTS: Final = 3
"""Of RAISERROR: text, severity and state; values follow."""


_PRINTED: Final = (varchar(8000), nvarchar(4000))
"""What PRINT makes of a value: text of two bytes a character at the second place."""


class MessageStatements:
    """What a statement says itself, to the client or to a CATCH block."""

    def __init__(self, interpreter: StatementRunner) -> None:
        self.interpreter = interpreter
        self.context = interpreter.context

    def print(self, node: Print, frame: Frame) -> Iterator[Event]:
        """PRINT: 8,000 bytes at most.

        Raises:
            SqlError: 257 for a type without an implicit conversion to text.
        """
        plan, sql_type = self.interpreter.planner.scalar(node.value, frame)
        printed = _PRINTED[is_national(sql_type)]
        check_allowed(sql_type, printed, explicit=False)
        value = self.interpreter.queries.scalar(plan, frame)
        text = "" if value is None else convert(value, sql_type, printed)
        yield Message(0, str(text), 0, 1, frame.procedure, node.line)

    def raise_error(self, node: RaiseError, frame: Frame) -> Iterator[Event]:
        """RAISERROR."""
        values = [
            self._message_argument(a, frame, n if n > FIXED_ARGUMENTS else 0)
            for n, a in enumerate(node.arguments, 1)
        ]
        if len(values) < 3:
            raise messages.syntax(")", node.line)
        template, severity, state = values[0], int(str(values[1])), int(str(values[2]))
        if severity > SEVERITY_MAX_WITHOUT_LOG and "LOG" not in node.options:
            raise log_option_needed()
        told = template if isinstance(template, int) else str(template or "")
        error = raised(told, severity, state, values[3:])
        error.line, error.procedure = node.line, frame.procedure
        if error.severity < 11:
            self.context.last_error = error.number if "SETERROR" in node.options else 0
            yield Message(
                error.number, error.message, error.severity, error.state, frame.procedure, node.line
            )
            return
        raise error

    def _message_argument(
        self, node: Expression, frame: Frame, substituted: int = 0
    ) -> StorageValue:
        """An argument of RAISERROR or THROW: an integer or text.

        Args:
            frame: where it is evaluated.
            substituted: its position when its value is put into the text.
        """
        plan, sql_type = self.interpreter.planner.scalar(node, frame)
        if substituted:
            check_substitution(sql_type, substituted)
        value = self.interpreter.queries.scalar(plan, frame)
        if value is None or (isinstance(value, int) and not sql_type.is_decimal):
            return value
        return str(convert(value, sql_type, nvarchar(2047)))

    def throw(self, node: Throw, frame: Frame) -> Iterator[Event]:
        """THROW."""
        yield from ()
        if not node.arguments:
            if not frame.handled:
                raise messages.error(10704, line=node.line)
            caught = frame.handled[-1]
            again = replace(
                caught,
                aborts=Aborts.TRANSACTION if caught.aborts == Aborts.TRANSACTION else Aborts.BATCH,
            )
            # It keeps the line and procedure of the error that it passes on.
            self.interpreter.raised_in(again, frame)
            raise again
        number, message, state = (self._message_argument(a, frame) for a in node.arguments)
        error = thrown(int(str(number)), str(message), int(str(state)))
        error.line, error.procedure = node.line, frame.procedure
        raise error
