"""IGNORE_DUP_KEY: which indexes accept it, and ALTER INDEX that sets it.

See: CREATE INDEX (Transact-SQL), IGNORE_DUP_KEY; ALTER INDEX (Transact-SQL), the same.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tailrace_emulator import messages
from tailrace_emulator.storage.indexes import set_ignore_dup_key

if TYPE_CHECKING:
    from tailrace_emulator.catalog.context import SessionContext
    from tailrace_emulator.storage.engine import Database
    from tailrace_emulator.storage.model import Index, Table
    from tailrace_emulator.tsql.syntax.maintenance_statements import AlterIndex


def refuse_ignoring(index: Index, table: str, action: str) -> None:
    """Raise for an index that does not accept IGNORE_DUP_KEY = ON.

    Args:
        action: what the statement does, create or alter.

    Raises:
        SqlError: 1915 or 1916 it is not unique, 10618 it has a filter.
    """
    if not index.unique and action == "alter":
        raise messages.error(1915, index.name)
    if not index.unique:
        raise messages.error(1916, "nonunique", "ignore_dup_key")
    if index.filter:
        raise messages.error(10618, action, index.name, table)


def alter_ignoring(
    context: SessionContext, database: Database, table: Table, node: AlterIndex, *, is_on: bool
) -> None:
    """ALTER INDEX .. and ALTER TABLE .. REBUILD with IGNORE_DUP_KEY.

    ALL concerns the indexes that accept it, and ALTER TABLE the clustered one.

    Raises:
        SqlError: 1979 for the index of a key; 1915 and 10618.
    """
    if node.of_table:
        chosen = [index for index in table.indexes if index.clustered]
    elif node.index is None:
        chosen = [i for i in table.indexes if i.unique and not i.filter and not _is_key(i)]
    else:
        folded = node.index.casefold()
        chosen = [index for index in table.indexes if index.name.casefold() == folded]
    for index in chosen:
        if _is_key(index) and not node.of_table:
            raise messages.error(1979, "ignore_dup_key", index.name)
        if is_on:
            refuse_ignoring(index, table.name, "alter")
    ids = {index.index_id for index in chosen if index.ignore_dup_key != is_on}
    if ids:
        set_ignore_dup_key(context.store, database, table, ids, is_on=is_on)


def _is_key(index: Index) -> bool:
    return index.primary_key or index.unique_constraint
