"""CREATE INDEX and DROP INDEX, and the indexes of key constraints. See ddl.py for the rules."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

from tailrace_emulator import messages
from tailrace_emulator.storage.constraints import refuse_duplicates
from tailrace_emulator.storage.database import Database
from tailrace_emulator.storage.ddl_scope import DdlTarget, ddl_scope, replace_table
from tailrace_emulator.storage.model import Index, Table
from tailrace_emulator.storage.sqlite_schema import create_index_text, index_name


def with_index(table: Table, index: Index) -> Table:
    """The table with one more index, numbered as SQL Server does."""
    if not index.index_id:
        taken = max((i.index_id for i in table.indexes), default=0)
        index = replace(index, index_id=1 if index.clustered else max(2, taken + 1))
    if len(index.descending) != len(index.column_ids):
        index = replace(index, descending=(False,) * len(index.column_ids))
    return replace(table, indexes=(*table.indexes, index))


def create_index(
    target: DdlTarget, database: Database, table: Table, index: Index, *, command: str = ""
) -> Table:
    """Create an index, or the index of a PRIMARY KEY or UNIQUE constraint; returns the new Table.

    Raises:
        SqlError: 1913 name taken, 1902 a second clustered one, 1779 a second primary key, 1505
            duplicate keys in the data.
    """
    with ddl_scope(target, database, table) as connection:
        if any(i.name.casefold() == index.name.casefold() for i in table.indexes):
            raise messages.error(1913, index.name, "table", f"{table.schema}.{table.name}")
        if index.primary_key and table.primary_key is not None:
            raise messages.error(1779, table.name)
        clustered = next((i for i in table.indexes if i.clustered), None)
        if index.clustered and clustered is not None:
            raise messages.error(1902, "table", f"{table.schema}.{table.name}", clustered.name)
        changed = with_index(table, index)
        if index.unique:
            refuse_duplicates(connection, changed, changed.indexes[-1])
        connection.execute(create_index_text(changed, changed.indexes[-1]))
        return replace_table(target, connection, database, changed, "other", command)


def set_ignore_dup_key(
    target: DdlTarget,
    database: Database,
    table: Table,
    index_ids: Collection[int],
    *,
    is_on: bool,
    command: str = "",
) -> Table:
    """Change what an INSERT does about duplicate keys of some indexes; returns the new Table."""
    with ddl_scope(target, database, table) as connection:
        indexes = tuple(
            replace(i, ignore_dup_key=is_on) if i.index_id in index_ids else i
            for i in table.indexes
        )
        changed = replace(table, indexes=indexes)
        return replace_table(target, connection, database, changed, "other", command)


def drop_index(
    target: DdlTarget, database: Database, table: Table, name: str, *, command: str = ""
) -> Table:
    """Drop an index (or the index of a key constraint) by name; returns the new Table.

    Raises:
        SqlError: 3701 when the table has none of that name.
    """
    with ddl_scope(target, database, table) as connection:
        folded = name.casefold()
        index = next((i for i in table.indexes if i.name.casefold() == folded), None)
        if index is None:
            raise messages.error(3701, "drop", "index", f"{table.name}.{name}", state=1)
        if index.is_kept:
            connection.execute(f'DROP INDEX main."{index_name(table, index)}"')
        changed = replace(table, indexes=tuple(i for i in table.indexes if i is not index))
        return replace_table(target, connection, database, changed, "other", command)
