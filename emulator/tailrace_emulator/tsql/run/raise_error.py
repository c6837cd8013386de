"""RAISERROR and THROW: their texts and what they end."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from tailrace_emulator import messages
from tailrace_emulator.messages.catalogue import SystemMessage
from tailrace_emulator.messages.errors import Aborts, SqlError, not_supported
from tailrace_emulator.tsql.functions.message_text import FIRST_MESSAGE, format_message
from tailrace_emulator.values.types import StorageValue

SEVERITY_MAX_WITHOUT_LOG: Final = 18


USER_TEXT: Final = 50_000
"""The number of what RAISERROR says with a text of its own."""
_NUMBER_MAX: Final = 2_147_483_647
_OF_THE_MESSAGE: Final = -1
"""The severity that stands for the message's own."""


def raised(
    told: str | int, severity: int, state: int, arguments: Sequence[StorageValue]
) -> SqlError:
    """The error of RAISERROR.

    Args:
        told: a text, or the number of a message.
        severity: the message's own when it is -1.
        state: 1 when it is negative or above 255.
        arguments: the values for the text.

    Raises:
        SqlError: 2732 a number that is none, 18054 no such message, 50900 a message of SQL
            Server's that this server does not know.
    """
    number, template = USER_TEXT, str(told)
    if isinstance(told, int):
        message = _message(told, severity, state)
        number, template = told, message.text
        severity = message.severity if severity == _OF_THE_MESSAGE else severity
    return SqlError(
        number,
        format_message(template, arguments),
        severity=max(0, min(severity, 25)),
        state=state if 0 <= state <= 255 else 1,
    )


def log_option_needed() -> SqlError:
    """2754."""
    return messages.error(2754)


def _message(number: int, severity: int, state: int) -> SystemMessage:
    """The message of a number; there are no users' messages, as nothing adds any."""
    if number < FIRST_MESSAGE or number == USER_TEXT:
        raise messages.error(2732, number, FIRST_MESSAGE, _NUMBER_MAX)
    found = messages.CATALOGUE.get(number)
    if found is not None:
        return found
    if number < USER_TEXT:
        raise not_supported(f"RAISERROR with system message {number}")
    raise messages.error(18054, number, severity, state)


def thrown(number: int, message: str, state: int) -> SqlError:
    """The error of THROW.

    Raises:
        SqlError: 35100 for a number below 50000.
    """
    if number < USER_TEXT:
        raise messages.error(35100, number)
    return SqlError(number, message, severity=16, state=state, aborts=Aborts.BATCH)
