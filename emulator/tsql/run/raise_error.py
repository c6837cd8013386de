"""RAISERROR and THROW: their texts and what they end."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from emulator.errors import SqlError, not_supported
from emulator.tsql.functions.message_text import FIRST_MESSAGE, format_message
from emulator.types import StorageValue

SEVERITY_MAX_WITHOUT_LOG: Final = 18


def raised(template: str, severity: int, state: int, arguments: Sequence[StorageValue]) -> SqlError:
    """The error of RAISERROR with a text."""
    return SqlError(
        50000,
        format_message(template, arguments),
        severity=max(0, min(severity, 25)),
        state=state if 0 <= state <= 255 else 1,
    )


def log_option_needed() -> SqlError:
    """2754."""
    return SqlError(
        2754,
        "Error severity levels greater than 18 can only be specified by members of the sysadmin"
        " role, using the WITH LOG option.",
    )


def no_such_message(number: int, severity: int, state: int) -> SqlError:
    """RAISERROR with a number: there are no users' messages, as nothing adds any.

    Raises:
        SqlError: 50900 for a message of SQL Server's own.
    """
    if number < FIRST_MESSAGE or number == 50_000:
        return SqlError(
            2732,
            f"Error number {number} is invalid. The number must be from {FIRST_MESSAGE} through"
            " 2147483647 and it cannot be 50000.",
        )
    if number < 50_000:
        raise not_supported("RAISERROR with the number of a system message")
    return SqlError(
        18054,
        f"Error {number}, severity {severity}, state {state} was raised, but no message with that"
        " error number was found in sys.messages. If error is larger than 50000, make sure the"
        " user-defined message is added using sp_addmessage.",
    )


def thrown(number: int, message: str, state: int) -> SqlError:
    """The error of THROW.

    Raises:
        SqlError: 35100 for a number below 50000.
    """
    if number < 50_000:
        raise SqlError(
            35100,
            f"Error number {number} in the THROW statement is outside the valid range. Specify an"
            " error number in the valid range of 50000 to 2147483647.",
            state=10,
        )
    return SqlError(number, message, severity=16, state=state, aborts="batch")
