"""sp_updatestats and sp_recompile: there are no counts to update and no plans to throw away.

https://learn.microsoft.com/sql/relational-databases/system-stored-procedures/sp-updatestats-transact-sql
https://learn.microsoft.com/sql/relational-databases/system-stored-procedures/sp-recompile-transact-sql
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from emulator.catalog.names import split_name
from emulator.catalog.procedure_registry import Arguments, ProcedureParameter, procedure, text
from emulator.errors import SqlError
from emulator.results import Event, Message
from emulator.types import nvarchar, varchar

if TYPE_CHECKING:
    from emulator.catalog.context import SessionContext


@procedure("sp_updatestats", ProcedureParameter("@resample", varchar(8), "NO"))
def _update_statistics(_: SessionContext, args: Arguments) -> Iterator[Event]:
    """The final message; those about each table are left out."""
    resample = (text(args["@resample"]) or "").strip().upper()
    if resample not in {"NO", "RESAMPLE"}:
        raise SqlError(14138, f"Invalid option name '{resample}'.", procedure="sp_updatestats")
    yield Message(15005, "Statistics for all tables have been updated.", 0, 1, "sp_updatestats")


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
        raise SqlError(
            15165,
            f"Could not find object '{name}' or you do not have permission.",
            procedure="sp_recompile",
        )
    yield Message(
        15070, f"Object '{name}' was successfully marked for recompilation.", 0, 1, "sp_recompile"
    )
