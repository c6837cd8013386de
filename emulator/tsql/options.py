"""SET options."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from emulator.errors import SqlError, not_supported
from emulator.tsql import messages

if TYPE_CHECKING:
    from emulator.catalog.context import SessionContext

_FLAGS: Final = {
    "NOCOUNT": "nocount",
    "XACT_ABORT": "xact_abort",
    "IMPLICIT_TRANSACTIONS": "implicit_transactions",
    "QUOTED_IDENTIFIER": "quoted_identifier",
}
_ALWAYS_ON: Final = frozenset(
    {"ANSI_NULLS", "ANSI_PADDING", "ANSI_WARNINGS", "CONCAT_NULL_YIELDS_NULL", "ARITHABORT"}
)
_WITHOUT_EFFECT: Final = frozenset(
    {"ANSI_NULL_DFLT_ON", "ANSI_NULL_DFLT_OFF", "ANSI_DEFAULTS", "CURSOR_CLOSE_ON_COMMIT",
     "NUMERIC_ROUNDABORT", "ARITHIGNORE", "TEXTSIZE", "STATISTICS IO", "STATISTICS TIME",
     "STATISTICS PROFILE", "DEADLOCK_PRIORITY", "FORCEPLAN", "QUERY_GOVERNOR_COST_LIMIT",
     "REMOTE_PROC_TRANSACTIONS", "LANGUAGE", "DATEFORMAT"}
)  # fmt: skip


def set_option(context: SessionContext, option: str, value: str) -> None:
    """SET option value.

    Raises:
        SqlError: 195 for an unknown option; 50900 for one whose other setting would change results.
    """
    options = context.options
    if option in _FLAGS:
        setattr(options, _FLAGS[option], value == "ON")
    elif option in _ALWAYS_ON:
        if value != "ON" and option not in {"ARITHABORT", "ANSI_WARNINGS"}:
            raise not_supported(f"SET {option} OFF")
    elif option == "ISOLATION":
        context.options.isolation = value.lower()
        # Uncommitted rows of others are never visible: READ UNCOMMITTED reads committed ones.
        stronger = "read committed" if value == "READ UNCOMMITTED" else value.lower()
        context.store.isolation = stronger
    elif option == "LOCK_TIMEOUT":
        options.lock_timeout_ms = int(value)
        context.store.lock_timeout_ms = int(value)
    elif option == "DATEFIRST":
        options.datefirst = int(value)
    elif option == "ROWCOUNT":
        if value != "0":
            raise not_supported("SET ROWCOUNT n (use TOP)")
    elif option in {"LANGUAGE", "DATEFORMAT"}:
        _set_language(option, value)
    elif option in {"FMTONLY", "NOEXEC", "PARSEONLY", "SHOWPLAN_ALL", "SHOWPLAN_TEXT", "SHOWPLAN_XML",
                    "STATISTICS XML"}:  # fmt: skip
        if value != "OFF":
            raise not_supported(f"SET {option} ON")
    elif option not in _WITHOUT_EFFECT:
        raise _unknown(option)


def _set_language(option: str, value: str) -> None:
    """Only us_english, and its order of month, day, year."""
    if value not in {"US_ENGLISH", "ENGLISH", "MDY"}:
        raise not_supported(f"SET {option} {value}")


def _unknown(option: str) -> SqlError:
    """195."""
    return messages.compile_error(195, f"'{option}' is not a recognized SET option.", severity=15)
