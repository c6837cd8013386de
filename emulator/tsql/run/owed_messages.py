"""Messages that a statement owes its client: they come after its rows, before its end."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from emulator.results import Message
from emulator.tsql.compile.lenient import (
    ARITHMETIC_OVERFLOW,
    DIVISION_BY_ZERO,
    INVALID_FLOATING_POINT,
)
from emulator.tsql.compile.workspace import NULL_ELIMINATED

if TYPE_CHECKING:
    from emulator.tsql.compile.workspace import Workspace

_TEXTS: Final = {
    ARITHMETIC_OVERFLOW: "Arithmetic overflow occurred.",
    DIVISION_BY_ZERO: "Division by zero occurred.",
    INVALID_FLOATING_POINT: "Warning: An invalid floating point operation occurred.",
    NULL_ELIMINATED: "Warning: Null value is eliminated by an aggregate or other SET operation.",
}
"""Of severity 10, which clients are sent as 0."""


def owed_messages(workspace: Workspace) -> Iterator[Message]:
    """The messages, which are then no longer owed; none of arithmetic under ARITHIGNORE ON."""
    owed = sorted(workspace.owed)
    workspace.owed.clear()
    for number in owed:
        if number == NULL_ELIMINATED:
            yield Message(number, _TEXTS[number])
        elif not workspace.context.options.arithignore:
            yield Message(number, _TEXTS[number], state=0)
