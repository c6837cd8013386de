"""What the grammar or an earlier step makes certain, said where a type checker cannot see it."""

from __future__ import annotations

from typing import TypeVar

from tailrace_emulator.messages.errors import INTERNAL, Aborts, SqlError

Known = TypeVar("Known")


def known(value: Known | None, what: str) -> Known:
    """The value, which is there.

    Args:
        value: what cannot be None here.
        what: its name, for the error.

    Raises:
        SqlError: 50999, a defect of the embedded server, when it is None after all.
    """
    if value is None:
        raise SqlError(INTERNAL, f"The embedded SQL Server lost its {what}.", aborts=Aborts.BATCH)
    return value
