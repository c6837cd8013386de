"""##global temporary tables, #procedures, ##procedures: tempdb's; they go with their session.

https://learn.microsoft.com/sql/t-sql/statements/create-table-transact-sql

Locks, transactions and visibility are those of any other table. One that another transaction still
holds when its session ends is out of sight at once. It is dropped when a later session ends or
creates a table of its name.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from tailrace_emulator.messages.errors import SqlError
from tailrace_emulator.storage import ddl as store_ddl

if TYPE_CHECKING:
    from tailrace_emulator.catalog.context import SessionContext
    from tailrace_emulator.storage.engine import Engine


def drop_global_tables(engine: Engine, object_ids: Iterable[int]) -> None:
    """A session ended: its tables go, and with them what earlier sessions had to leave.

    Args:
        object_ids: of the tables that the session made; some may be gone.
    """
    engine.abandoned_tables.update(object_ids)
    tempdb = engine.databases["tempdb"]
    for object_id in list(engine.abandoned_tables):
        try:
            with engine.write() as connection:
                table = tempdb.table_by_id(object_id)
                if table is not None:
                    store_ddl.drop_table(connection, tempdb, table)
        except SqlError:
            continue  # locked: it is tried again later
        engine.abandoned_tables.discard(object_id)


def drop_temporary_modules(engine: Engine, object_ids: Iterable[int]) -> None:
    """A session ended, or its pooled connection is reset: its procedures go.

    Args:
        object_ids: of those that it made; some may be gone.
    """
    tempdb = engine.databases["tempdb"]
    wanted = set(object_ids)
    with engine.write() as connection:
        for module in [m for m in tempdb.modules.values() if m.object_id in wanted]:
            store_ddl.drop_module(connection, tempdb, module)


def make_room(context: SessionContext, name: str) -> None:
    """Before a ##table is created: what an ended session left under that name goes.

    Raises:
        SqlError: 1222 or 1205 while another transaction holds it.
    """
    tempdb = context.engine.databases["tempdb"]
    table = tempdb.table("dbo", name)
    if table is not None and table.object_id in context.engine.abandoned_tables:
        store_ddl.drop_table(context.store, tempdb, table)
