"""CDC's procedures take part in their caller's transaction, as SQL Server's do.

They change tables and metadata, so they run as DDL of the calling session. Their effects are undone
with its transaction, and they see what it has not committed.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, TypeVar

from tailrace_emulator import messages

if TYPE_CHECKING:
    from tailrace_emulator.catalog.context import SessionContext
    from tailrace_emulator.storage.model import Table

Result = TypeVar("Result")


def as_ddl(context: SessionContext, body: Callable[[], Result], *tables: Table | None) -> Result:
    """Runs ``body`` as a DDL statement of the session.

    Args:
        body: changes the catalog inside ``engine.write()``, which joins the session's transaction.
        tables: what it changes, if that exists: locked first, by the session's own rules.

    Raises:
        SqlError: 1222 or 1205 when somebody else holds locks on them, and what ``body`` raises.
    """
    known = [table for table in tables if table is not None]

    def run() -> Result:
        with context.store.ddl(known):
            return body()

    return context.store.run(run)


def refuse_within_ddl(context: SessionContext, procedure: str) -> None:
    """Refuses what commits its own work in a transaction that has the write path for itself.

    Raises:
        SqlError: 15002 within such a transaction.
    """
    if context.engine.write_path.joins_write():
        raise messages.error(15002, procedure)
