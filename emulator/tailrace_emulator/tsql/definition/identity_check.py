"""DBCC CHECKIDENT: what an identity column stands at, and setting it.

https://learn.microsoft.com/sql/t-sql/database-console-commands/dbcc-checkident-transact-sql
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from tailrace_emulator import messages
from tailrace_emulator.catalog.names import database_of, split_name
from tailrace_emulator.security.access import of_object
from tailrace_emulator.tsql.certain import known
from tailrace_emulator.tsql.syntax.sequence_statements import CheckIdentity
from tailrace_emulator.values.results import Event, Message

if TYPE_CHECKING:
    from tailrace_emulator.catalog.context import SessionContext
    from tailrace_emulator.storage.engine import Database
    from tailrace_emulator.storage.model import Table


def check_identity(
    context: SessionContext, node: CheckIdentity, name: str, value: int | None
) -> Iterator[Event]:
    """Runs it.

    Args:
        name: the table's name, evaluated.
        value: what to reseed to, evaluated; None: to the largest value in the column.

    Raises:
        SqlError: 2501 no such table, 7997 no identity column, 229 not permitted.
    """
    table = _table(context, name, node)
    column = next((c for c in table.columns if c.identity is not None), None)
    if column is None:
        raise messages.error(7997, table.name)
    identity = known(column.identity, "identity of a column")
    identities, store = context.engine.identities, context.store
    last = identities.current(table)
    best = "max" if identity.increment > 0 else "min"
    text = f"SELECT {best}({column.sqlite_name}) FROM {store.reads.source(table)}"
    rows: list[Any] = store.connection.execute(text).fetchall()
    highest = rows[0][0]
    shown = f"current identity value '{_shown(last)}'"
    if value is None:
        shown += f", current column value '{_shown(highest)}'"
    if node.reseed:
        wanted = None
        if value is not None:
            # A table that never had rows begins with the new value itself.
            wanted = value - identity.increment if last is None else value
        elif highest is not None and (last is None or (highest - last) * identity.increment > 0):
            wanted = highest
        if wanted is not None:
            identities.reseed(table, wanted)
            with context.engine.write() as connection:
                identities.persist(connection, table)
    if not node.silent:
        yield Message(7998, messages.text(7998, shown), 0, 1, "", node.line)
        yield Message(2528, messages.text(2528), 0, 1, "", node.line)


def _shown(value: int | None) -> str:
    return "NULL" if value is None else str(value)


def _table(context: SessionContext, name: str, node: CheckIdentity) -> Table:
    """The table that a string names."""
    found = split_name(name)
    database: Database | None = None
    table = None
    if found is not None:
        database = database_of(context.engine, context.database, found.database)
        table = database.table(found.schema or "dbo", found.name) if database else None
    if table is None or database is None:
        raise messages.error(2501, name, line=node.line)
    if not context.security.has(of_object(database, table), "ALTER"):
        raise messages.error(2557, context.user, table.name)
    return table
