"""What change data capture forbids to be done to a source table.

https://learn.microsoft.com/sql/relational-databases/system-tables/cdc-change-tables-transact-sql:
"After change data capture is enabled, no modification is allowed on the primary key."
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tailrace_emulator import messages
from tailrace_emulator.cdc.capture_instance import source_instances
from tailrace_emulator.cdc.replication import is_replicated
from tailrace_emulator.messages.errors import not_supported

if TYPE_CHECKING:
    import apsw

    from tailrace_emulator.storage.engine import Database
    from tailrace_emulator.storage.model import Column, Table


def refuse_index_removal(
    connection: apsw.Connection, database: Database, table: Table, index_name: str
) -> None:
    """Refuses to drop the index that identifies rows for a capture instance.

    Args:
        connection: what to read CDC's metadata with.
        index_name: the index, or the constraint that it belongs to.

    Raises:
        SqlError: 22979 for a constraint's index, 22983 for another.
    """
    if not table.is_tracked:
        return
    folded = index_name.casefold()
    used = {
        (instance.index_name or "").casefold()
        for instance in source_instances(connection, database, table)
    }
    if folded not in used:
        return
    index = next((i for i in table.indexes if i.name.casefold() == folded), None)
    if index is not None and (index.primary_key or index.unique_constraint):
        raise messages.error(22979, index.name, table.name)
    raise messages.error(22983, index_name, table.name)


def refuse_switch(
    connection: apsw.Connection, database: Database, table: Table, *, is_source: bool
) -> None:
    """Refuses ALTER TABLE .. SWITCH of a partitioned table whose instances do not allow it.

    Raises:
        SqlError: 22843 when it is the source of the switch, 22842 when it is the target.
    """
    if not table.is_tracked or table.partition_scheme is None:
        return
    if all(i.partition_switch for i in source_instances(connection, database, table)):
        return
    raise messages.error(22843 if is_source else 22842)


def refuse_alter(table: Table, column: Column | None = None) -> None:
    """Refuses to change the columns of a table of change data capture.

    A captured column of a change table may be altered by hand.

    Args:
        column: the one whose type changes; None for any other change.

    Raises:
        SqlError: 50900. "Any objects [of schema cdc] with is_ms_shipped property set to 1 shouldn't
            be modified": SQL Server lets it happen, and its capture process fails afterwards.
    """
    captured = table.encoded
    if captured is not None and column in table.columns[captured.first : captured.end]:
        return
    if table.is_ms_shipped:
        raise not_supported(
            f"changes of the columns or the name of '{table.schema}.{table.name}', a table of"
            " change data capture"
        )


def refuse_rename_of_column(
    connection: apsw.Connection, database: Database, table: Table, column_id: int
) -> None:
    """Refuses to rename a captured column.

    Raises:
        SqlError: 4928 for a captured column.
    """
    if not table.is_tracked:
        return
    for instance in source_instances(connection, database, table):
        for captured in instance.columns:
            column = table.column_by_id(column_id)
            if captured.column_id == column_id and column is not None:
                raise messages.error(4928, column.name, "REPLICATED", procedure="sp_rename")


def refuse_drop(database: Database, table: Table) -> None:
    """Refuses to drop a table of change data capture, or an article of a publication.

    Raises:
        SqlError: 3701 for a table that the system made (inferred), 3724 for an article.
    """
    if table.is_ms_shipped:
        raise messages.error(3701, "drop", "table", f"{table.schema}.{table.name}", state=1)
    if is_replicated(database, table):
        raise messages.error(3724, "drop", "table", f"{table.schema}.{table.name}")
