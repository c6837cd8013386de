"""Messages that a statement owes its client: they come after its rows, before its end."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from tailrace_emulator import messages
from tailrace_emulator.tsql.compile.workspace import NULL_ELIMINATED
from tailrace_emulator.values.results import Message

if TYPE_CHECKING:
    from tailrace_emulator.tsql.compile.workspace import Workspace


DUPLICATE_IGNORED: Final = 3604
"""Of an INSERT that left out rows for IGNORE_DUP_KEY."""


def owed_messages(workspace: Workspace) -> Iterator[Message]:
    """The messages, which are then no longer owed; none of arithmetic under ARITHIGNORE ON.

    Their severity is 10, which clients are sent as 0.
    """
    owed = sorted(workspace.owed)
    workspace.owed.clear()
    for number in owed:
        if number == NULL_ELIMINATED:
            yield Message(number, messages.text(number))
        elif number == DUPLICATE_IGNORED or not workspace.context.options.arithignore:
            yield Message(number, messages.text(number), state=0)
