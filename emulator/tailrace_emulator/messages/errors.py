"""SQL Server errors as values: number, severity, state, message, procedure, line."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Final

NOT_SUPPORTED: Final = 50_900
"""Our own number for what the embedded server does not do; never one of SQL Server's."""

INTERNAL: Final = 50_999
"""Our own number for a defect of the embedded server itself."""

LOCK_TIMEOUT: Final = 1222
"""SQL Server's number for a lock that was not free in time."""


class Aborts(StrEnum):
    """What an error ends."""

    STATEMENT = "statement"
    """The statement only."""

    SCOPE = "scope"
    """What did not compile: a batch, or a procedure or dynamic text, whose caller continues."""

    REPORTED = "reported"
    """Nothing more: it has ended a scope within, and the client has been sent it."""

    BATCH = "batch"
    """The batch."""

    TRANSACTION = "transaction"
    """The batch, and the transaction is rolled back."""


@dataclass
class SqlError(Exception):
    """An error that a client sees.

    Attributes:
        number: SQL Server's own message number (it decides the client's exception class), or
            50900 and above for what is the embedded server's own.
        message: text as SQL Server words it.
        severity: class; 11-16 errors, 20 and above close the connection.
        procedure: name of the procedure that raised it, empty outside.
        line: line within the batch, 1-based.
    """

    number: int
    message: str
    severity: int = 16
    state: int = 1
    procedure: str = ""
    line: int = 1
    aborts: Aborts = Aborts.STATEMENT

    def __str__(self) -> str:
        """Number and text."""
        return f"{self.number}: {self.message}"


def not_supported(feature: str) -> SqlError:
    """The refusal of a feature, by name."""
    return SqlError(
        NOT_SUPPORTED,
        f"The embedded SQL Server does not support {feature}. It is refused rather than answered"
        " wrongly; docs/emulator/emulator.md lists what is supported.",
    )
