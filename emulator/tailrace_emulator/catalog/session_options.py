"""What shows a session's SET options: SESSIONPROPERTY and DBCC USEROPTIONS.

https://learn.microsoft.com/sql/t-sql/functions/sessionproperty-transact-sql
https://learn.microsoft.com/sql/t-sql/database-console-commands/dbcc-useroptions-transact-sql
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from tailrace_emulator.catalog.property_functions import as_variant
from tailrace_emulator.catalog.scalar_registry import scalar
from tailrace_emulator.values.results import ColumnMeta, Event, ResultSet, Rows, StatementDone
from tailrace_emulator.values.types import SQL_VARIANT, nvarchar

if TYPE_CHECKING:
    from tailrace_emulator.catalog.context import SessionContext
    from tailrace_emulator.values.types import StorageValue

_NAME: Final = nvarchar(128)
_PROPERTIES: Final = frozenset(
    {"ansi_nulls", "ansi_padding", "ansi_warnings", "arithabort", "concat_null_yields_null",
     "quoted_identifier"}
)  # fmt: skip
_LISTED: Final = (
    "nocount", "quoted_identifier", "arithabort", "arithignore", "ansi_null_dflt_on",
    "ansi_null_dflt_off", "ansi_warnings", "ansi_padding", "ansi_nulls", "concat_null_yields_null",
    "cursor_close_on_commit", "implicit_transactions", "xact_abort",
)  # fmt: skip
"""Shown while they are ON."""


@scalar("SESSIONPROPERTY", SQL_VARIANT, _NAME)
def _session_property(context: SessionContext, asked: StorageValue) -> StorageValue:
    name = str(asked or "").casefold().rstrip()
    if name == "numeric_roundabort":
        return as_variant(0)
    if name == "user":
        return as_variant(context.login)
    if name not in _PROPERTIES:
        return None
    return as_variant(int(getattr(context.options, name)))


def user_options(context: SessionContext) -> Iterator[Event]:
    """The result of DBCC USEROPTIONS."""
    options = context.options
    rows = [
        ("textsize", str(options.textsize)),
        ("language", options.language),
        ("dateformat", options.dateformat),
        ("datefirst", str(options.datefirst)),
        ("lock_timeout", str(options.lock_timeout_ms)),
        *((name, "SET") for name in _LISTED if getattr(options, name)),
        ("isolation level", options.isolation),
    ]
    yield ResultSet((ColumnMeta("Set Option", _NAME), ColumnMeta("Value", _NAME)))
    yield Rows(rows)
    yield StatementDone("select", len(rows))
