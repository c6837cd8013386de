"""RAISERROR and THROW: their texts and what they end."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

from emulator.errors import SqlError, not_supported
from emulator.types import StorageValue

SEVERITY_MAX_WITHOUT_LOG: Final = 18
FIRST_MESSAGE: Final = 13_000
_SPECIFICATION: Final = re.compile(r"%([-+0 #]*)(\*|\d+)?(?:\.(\*|\d+))?(?:h|l|I64)?([diosuxX%])")


def format_message(template: str, arguments: Sequence[StorageValue]) -> str:
    """RAISERROR's substitution: %s, %d, %i, %u, %x, %X, %o with width and flags.

    Raises:
        SqlError: 2786 when an argument's type does not fit its specification.
    """
    remaining = list(arguments)

    def substitute(match: re.Match[str]) -> str:
        flags, width, precision, kind = match.groups()
        if kind == "%":
            return "%"
        if width == "*":
            width = str(remaining.pop(0) if remaining else "")
        if precision == "*":
            precision = str(remaining.pop(0) if remaining else "")
        value = remaining.pop(0) if remaining else None
        if value is None:
            return "(null)"
        if kind == "s":
            if not isinstance(value, str):
                raise _mismatch()
            text = value if precision is None else value[: int(precision)]
        elif isinstance(value, int):
            text = _number(value, kind, flags)
        else:
            raise _mismatch()
        size = int(width or 0)
        if "-" in flags:
            return text.ljust(size)
        return text.rjust(size, "0" if "0" in flags and kind != "s" else " ")

    return _SPECIFICATION.sub(substitute, template)[:2047]


def _number(value: int, kind: str, flags: str) -> str:
    """An integer under a conversion."""
    if kind in "di":
        return f"+{value}" if "+" in flags and value >= 0 else str(value)
    unsigned = value & 0xFFFFFFFF if value < 0 else value
    if kind == "u":
        return str(unsigned)
    text = f"{unsigned:{kind}}"
    prefix = {"x": "0x", "X": "0X", "o": "0"}[kind] if "#" in flags else ""
    return prefix + text


def _mismatch() -> SqlError:
    """2786."""
    return SqlError(
        2786,
        "The data type of substitution parameter 1 does not match the expected type of the format"
        " specification.",
    )


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
