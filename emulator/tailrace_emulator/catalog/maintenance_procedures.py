"""sp_updatestats and sp_recompile: there are no counts to update and no plans to throw away.

https://learn.microsoft.com/sql/relational-databases/system-stored-procedures/sp-updatestats-transact-sql
https://learn.microsoft.com/sql/relational-databases/system-stored-procedures/sp-recompile-transact-sql
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from tailrace_emulator import messages
from tailrace_emulator.catalog.names import split_name
from tailrace_emulator.catalog.procedure_registry import (
    Arguments,
    ProcedureParameter,
    procedure,
    text,
)
from tailrace_emulator.values.results import Event, Message
from tailrace_emulator.values.types import nvarchar, varchar

if TYPE_CHECKING:
    from tailrace_emulator.catalog.context import SessionContext


@procedure("sp_updatestats", ProcedureParameter("@resample", varchar(8), "NO"))
def _update_statistics(_: SessionContext, args: Arguments) -> Iterator[Event]:
    """The final message; those about each table are left out."""
    resample = (text(args["@resample"]) or "").strip().upper()
    if resample not in {"NO", "RESAMPLE"}:
        raise messages.error(14138, resample, procedure="sp_updatestats")
    yield Message(15005, messages.text(15005), 0, 1, "sp_updatestats")


@procedure("sp_recompile", ProcedureParameter("@objname", nvarchar(776)))
def _recompile(context: SessionContext, args: Arguments) -> Iterator[Event]:
    """The next execution compiles anyway when something changed."""
    name = text(args["@objname"]) or ""
    parts = split_name(name)
    database = context.database
    found = parts is not None and (
        database.table(parts.schema or "dbo", parts.name)
        or database.module(parts.schema or "dbo", parts.name)
    )
    if not found:
        raise messages.error(15165, name, procedure="sp_recompile")
    yield Message(15070, messages.text(15070, name), 0, 1, "sp_recompile")
