"""SET options."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from emulator.errors import not_supported
from emulator.tsql import messages

if TYPE_CHECKING:
    from emulator.catalog.context import SessionContext

_FLAGS: Final = {
    "NOCOUNT": "nocount",
    "FMTONLY": "fmtonly",
    "XACT_ABORT": "xact_abort",
    "IMPLICIT_TRANSACTIONS": "implicit_transactions",
    "QUOTED_IDENTIFIER": "quoted_identifier",
}
_ALWAYS_ON: Final = frozenset({"ANSI_NULLS", "ANSI_PADDING", "CONCAT_NULL_YIELDS_NULL"})
_ALWAYS_OFF: Final = frozenset(
    {"NOEXEC", "PARSEONLY", "SHOWPLAN_ALL", "SHOWPLAN_TEXT", "SHOWPLAN_XML",
     "STATISTICS XML"}
)  # fmt: skip
_WITHOUT_EFFECT: Final = frozenset(
    {"ANSI_NULL_DFLT_ON", "ANSI_NULL_DFLT_OFF", "ANSI_DEFAULTS", "CURSOR_CLOSE_ON_COMMIT",
     "NUMERIC_ROUNDABORT", "ANSI_WARNINGS", "ARITHABORT", "ARITHIGNORE", "TEXTSIZE",
     "STATISTICS IO", "STATISTICS TIME", "STATISTICS PROFILE", "FORCEPLAN",
     "NO_BROWSETABLE", "QUERY_GOVERNOR_COST_LIMIT", "REMOTE_PROC_TRANSACTIONS"}
)  # fmt: skip


_DEADLOCK_PRIORITIES: Final = {"LOW": -5, "NORMAL": 0, "HIGH": 5}


def set_option(context: SessionContext, option: str, value: str) -> None:
    """SET option value.

    Raises:
        SqlError: 195 for an unknown option; 50900 for one whose other setting would change results.
    """
    if option in _FLAGS:
        setattr(context.options, _FLAGS[option], value == "ON")
    elif option in _SETTERS:
        _SETTERS[option](context, value)
    elif option in _ALWAYS_ON:
        if value != "ON":
            raise not_supported(f"SET {option} OFF")
    elif option in _ALWAYS_OFF:
        if value not in {"OFF", "0"}:
            raise not_supported(f"SET {option} {value}")
    elif option not in _WITHOUT_EFFECT:
        raise messages.compile_error(
            195, f"'{option}' is not a recognized SET option.", severity=15
        )


def set_isolation(context: SessionContext, value: str) -> None:
    """TRANSACTION ISOLATION LEVEL."""
    context.options.isolation = context.store.isolation = value.lower()


def _set_deadlock_priority(context: SessionContext, value: str) -> None:
    """DEADLOCK_PRIORITY: LOW, NORMAL, HIGH or -10 to 10."""
    named = _DEADLOCK_PRIORITIES.get(value)
    context.store.deadlock_priority = int(value) if named is None else named


def _set_lock_timeout(context: SessionContext, value: str) -> None:
    """LOCK_TIMEOUT in milliseconds."""
    context.options.lock_timeout_ms = context.store.lock_timeout_ms = int(value)


def _set_date_first(context: SessionContext, value: str) -> None:
    """DATEFIRST, 1 (Monday) to 7."""
    context.options.datefirst = int(value)


def _set_language(_: SessionContext, value: str) -> None:
    """Only us_english, and its order of month, day, year."""
    if value not in {"US_ENGLISH", "ENGLISH", "MDY"}:
        raise not_supported(f"SET LANGUAGE or DATEFORMAT {value}")


def _set_row_count(context: SessionContext, value: str) -> None:
    """ROWCOUNT: how many rows a statement returns or changes at most; 0 without limit."""
    context.options.rowcount = int(value)


_SETTERS: Final[dict[str, Callable[[SessionContext, str], None]]] = {
    "ISOLATION": set_isolation,
    "ROWCOUNT": _set_row_count,
    "LOCK_TIMEOUT": _set_lock_timeout,
    "DEADLOCK_PRIORITY": _set_deadlock_priority,
    "DATEFIRST": _set_date_first,
    "LANGUAGE": _set_language,
    "DATEFORMAT": _set_language,
}
