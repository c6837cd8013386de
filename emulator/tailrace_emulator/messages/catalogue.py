"""What a message of SQL Server's is, and what becomes of it when values are put in.

The texts are those of ``sys.messages``: ``%.*ls``, ``%d`` and their like stand for values,
``%S_MSG`` for a word of the server's own, and ``%%`` is a percent sign. Values come as the server
shows them, so every specification takes the value's text; widths and precisions are not needed.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from enum import Enum
from typing import Final

from tailrace_emulator.messages.errors import Aborts

SPECIFICATION: Final = re.compile(
    r"%(?:%|[-+0 #]*\d*(?:\.(?:\d+|\*))?(?:S_MSG|I64[du]|hs|l[sd]|[sdiuxXfcp]))"
)
"""A place for a value in a text, or ``%%``."""


class Source(Enum):
    """Where a message is known from."""

    DOCUMENTED = "documented"
    """Microsoft's list of Database Engine events and errors has the number with this text.

    Compared with the list line by line: 100 to 566, 15001 to 15600 and 22832 to 22999. The others'
    kinds of places (%ls or %.*ls) may differ from it.
    """

    INFERRED = "inferred"
    """The number or the wording is what experience says, not what a page of Microsoft's says."""


@dataclass(frozen=True, slots=True)
class SystemMessage:
    """A message of SQL Server's own.

    Attributes:
        number: its ``message_id`` in ``sys.messages``.
        text: with places for values, as in ``sys.messages``.
        severity: class; 10 and below inform, 11-16 are errors, 20 and above end the connection. It
            is the one with which clients are sent it, which Microsoft's list has otherwise for
            108, 116, 192, 262, 331 and 334.
        state: where SQL Server raises it from nearly always here; the place that raises it from
            elsewhere says its own.
        aborts: what it ends, after Erland Sommarskog's measurements ("Error and Transaction
            Handling in SQL Server", part two); the place that differs says its own.
        is_logged: whether the server writes it to the event log whenever it is raised.
        source: where number and text are from. State and ``aborts`` are on no page of Microsoft's.
    """

    number: int
    text: str
    severity: int = 16
    state: int = 1
    aborts: Aborts = Aborts.STATEMENT
    is_logged: bool = False
    source: Source = Source.DOCUMENTED
    _form: str = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        form = SPECIFICATION.sub(lambda m: "%%" if m.group() == "%%" else "%s", self.text)
        object.__setattr__(self, "_form", form)

    @property
    def places(self) -> tuple[str, ...]:
        """The specifications of the values that the text takes, in order."""
        return tuple(s for s in SPECIFICATION.findall(self.text) if s != "%%")

    def filled(self, arguments: tuple[object, ...]) -> str:
        """The text with values put in.

        Args:
            arguments: one for each place, in order.

        Raises:
            TypeError: too many or too few; a defect of the place that raises the message.
        """
        return self._form % arguments
