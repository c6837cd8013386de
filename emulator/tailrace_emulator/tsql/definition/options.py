"""SET options.

https://learn.microsoft.com/sql/t-sql/statements/set-statements-transact-sql
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Final

from tailrace_emulator import messages
from tailrace_emulator.catalog.languages import find_language, is_refused_language
from tailrace_emulator.catalog.set_options import TEXTSIZE_DEFAULT, TEXTSIZE_MAX
from tailrace_emulator.messages.errors import not_supported
from tailrace_emulator.values.date_order import ORDERS
from tailrace_emulator.values.results import LanguageChanged, Message

if TYPE_CHECKING:
    from tailrace_emulator.catalog.context import SessionContext
    from tailrace_emulator.catalog.languages import Language
    from tailrace_emulator.catalog.set_options import SetOptions
    from tailrace_emulator.storage.catalog_state import Module
    from tailrace_emulator.values.results import Event

_FLAGS: Final = {
    name: name.lower()
    for name in (
        "NOCOUNT", "FMTONLY", "NOEXEC", "XACT_ABORT", "IMPLICIT_TRANSACTIONS", "ANSI_WARNINGS",
        "ARITHABORT", "ARITHIGNORE", "ANSI_NULLS", "ANSI_PADDING", "CONCAT_NULL_YIELDS_NULL",
        "CURSOR_CLOSE_ON_COMMIT", "ANSI_NULL_DFLT_ON", "ANSI_NULL_DFLT_OFF",
    )
}  # fmt: skip
_ALWAYS_OFF: Final = frozenset(
    {"SHOWPLAN_ALL", "SHOWPLAN_TEXT", "SHOWPLAN_XML", "STATISTICS XML", "STATISTICS PROFILE",
     "STATISTICS IO", "STATISTICS TIME", "NUMERIC_ROUNDABORT", "FIPS_FLAGGER"}
)  # fmt: skip
"""Their other setting would change results or messages."""
_EXCLUSIVE: Final = {
    "ANSI_NULL_DFLT_ON": "ansi_null_dflt_off",
    "ANSI_NULL_DFLT_OFF": "ansi_null_dflt_on",
}
"""What turns OFF when they turn ON."""
_WITHOUT_EFFECT: Final = frozenset({"FORCEPLAN", "NO_BROWSETABLE", "REMOTE_PROC_TRANSACTIONS"})
"""They concern how queries are planned, and other servers."""

_OF_PARSING: Final = frozenset({"QUOTED_IDENTIFIER", "PARSEONLY"})
"""They have taken effect when their batch was parsed."""
_ANSI_DEFAULTS: Final = (
    "ansi_nulls", "ansi_null_dflt_on", "ansi_padding", "ansi_warnings", "cursor_close_on_commit",
    "implicit_transactions",
)  # fmt: skip
"""What ANSI_DEFAULTS sets, in addition to QUOTED_IDENTIFIER."""

_DEADLOCK_PRIORITIES: Final = {"LOW": -5, "NORMAL": 0, "HIGH": 5}


def set_option(context: SessionContext, option: str, value: str) -> Iterator[Event]:
    """SET option value; yields what it sends the client.

    Args:
        option: its name, in upper case.
        value: spelt as it is written.

    Raises:
        SqlError: 195 for an unknown option; 102, 2740, 2741 or 2742 for a value that is none of it;
            50900 for one whose other setting would change results.
    """
    yield from ()
    folded = value.upper()
    if option in _FLAGS:
        _put(context, _FLAGS[option], _on(option, folded))
        if option in _EXCLUSIVE and folded == "ON":
            _put(context, _EXCLUSIVE[option], False)
    elif option in _SETTERS:
        _SETTERS[option](context, value)
    elif option == "ANSI_DEFAULTS":
        for each in _ANSI_DEFAULTS:
            _put(context, each, _on(option, folded))
    elif option in _OF_PARSING:
        _on(option, folded)
    elif option == "LANGUAGE":
        yield from _set_language(context, value)
    elif option in _ALWAYS_OFF:
        if folded != "OFF":
            raise not_supported(f"SET {option} {value}")
    elif option not in _WITHOUT_EFFECT:
        raise messages.error(195, option, "SET option")


def options_of(options: SetOptions, module: Module) -> SetOptions:
    """The options while a module runs that began under others."""
    return options.of_module(
        ansi_nulls=module.uses_ansi_nulls, quoted_identifier=module.uses_quoted_identifier
    )


def put_options(context: SessionContext, options: SetOptions) -> None:
    """Make a set of options the session's, and give its transactions what concerns them."""
    context.options = options
    context.read_dates()
    store = context.store
    store.isolation = options.isolation
    store.lock_timeout_ms = options.lock_timeout_ms
    store.deadlock_priority = options.deadlock_priority


def _on(option: str, value: str) -> bool:
    """Whether ON, of what is ON or OFF."""
    if value not in {"ON", "OFF"}:
        raise messages.syntax(option.lower(), 1)
    return value == "ON"


def _number(option: str, value: str) -> int:
    """The value of an option that takes a number."""
    try:
        return int(value)
    except ValueError:
        raise messages.syntax(option, 1) from None


def _put(context: SessionContext, option: str, value: object) -> None:
    put_options(context, context.options.changed(option, value))


def _set_isolation(context: SessionContext, value: str) -> None:
    """TRANSACTION ISOLATION LEVEL."""
    _put(context, "isolation", value.lower())


def _set_deadlock_priority(context: SessionContext, value: str) -> None:
    """DEADLOCK_PRIORITY: LOW, NORMAL, HIGH or -10 to 10."""
    named = _DEADLOCK_PRIORITIES.get(value.upper())
    priority = _number("DEADLOCK_PRIORITY", value) if named is None else named
    _put(context, "deadlock_priority", priority)


def _set_lock_timeout(context: SessionContext, value: str) -> None:
    """LOCK_TIMEOUT in milliseconds."""
    _put(context, "lock_timeout_ms", _number("LOCK_TIMEOUT", value))


def _set_date_first(context: SessionContext, value: str) -> None:
    """DATEFIRST, 1 (Monday) to 7."""
    day = _number("DATEFIRST", value)
    if not 1 <= day <= 7:
        raise messages.error(2742, day)
    _put(context, "datefirst", day)
    _put(context, "datefirst_is_given", True)


def _set_date_format(context: SessionContext, value: str) -> None:
    """DATEFORMAT: the order in which texts name day, month and year."""
    order = value.lower()
    if order not in ORDERS:
        raise messages.error(2741, value)
    _put(context, "dateformat", order)
    _put(context, "dateformat_is_given", True)


def _set_language(context: SessionContext, value: str) -> Iterator[Event]:
    """LANGUAGE: with its order of dates and its first day of the week."""
    if is_refused_language(value):
        raise not_supported(f"SET LANGUAGE {value}")
    language = find_language(value)
    if language is None:
        raise messages.error(2740, value)
    old = context.options.language
    put_options(context, in_language(context.options, language))
    yield LanguageChanged(old, language.name)
    yield Message(5703, messages.text(5703, language.name), 0, 1)


def in_language(options: SetOptions, language: Language) -> SetOptions:
    """The options with a language, and what it decides: no DATEFORMAT or DATEFIRST that was SET."""
    options = options.changed("language", language.name)
    if not options.dateformat_is_given:
        options = options.changed("dateformat", language.dateformat)
    if not options.datefirst_is_given:
        options = options.changed("datefirst", language.datefirst)
    return options


def _set_row_count(context: SessionContext, value: str) -> None:
    """ROWCOUNT: how many rows a statement returns or changes at most; 0 without limit."""
    _put(context, "rowcount", _number("ROWCOUNT", value))


def _set_text_size(context: SessionContext, value: str) -> None:
    """TEXTSIZE: bytes of a large value that clients are sent; -1 is all, 0 the default."""
    size = _number("TEXTSIZE", value)
    if size > TEXTSIZE_MAX:
        raise messages.error(1080, value)
    _put(context, "textsize", size if size > 0 or size == -1 else TEXTSIZE_DEFAULT)


def _set_cost_limit(_: SessionContext, value: str) -> None:
    """QUERY_GOVERNOR_COST_LIMIT: 0 is none; costs are not known here."""
    if _number("QUERY_GOVERNOR_COST_LIMIT", value):
        raise not_supported(f"SET QUERY_GOVERNOR_COST_LIMIT {value}")


_SETTERS: Final[dict[str, Callable[[SessionContext, str], None]]] = {
    "ISOLATION": _set_isolation,
    "ROWCOUNT": _set_row_count,
    "TEXTSIZE": _set_text_size,
    "LOCK_TIMEOUT": _set_lock_timeout,
    "DEADLOCK_PRIORITY": _set_deadlock_priority,
    "DATEFIRST": _set_date_first,
    "DATEFORMAT": _set_date_format,
    "QUERY_GOVERNOR_COST_LIMIT": _set_cost_limit,
}
