"""A capture instance: what cdc.change_tables, captured_columns and index_columns say of it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from tailrace_emulator import messages
from tailrace_emulator.cdc.metadata_tables import (
    CAPTURED_COLUMNS,
    CHANGE_TABLES,
    INDEX_COLUMNS,
    TableDefinition,
    column_list,
    metadata_table,
    sqlite_column,
)

if TYPE_CHECKING:
    import apsw

    from tailrace_emulator.storage.engine import Database
    from tailrace_emulator.storage.model import Table


@dataclass(frozen=True, slots=True)
class CapturedColumn:
    """A captured column: ``column_id`` in the source table, ``ordinal`` from 1 in the instance."""

    name: str
    column_id: int
    column_type: str
    ordinal: int
    is_computed: bool


@dataclass(frozen=True, slots=True)
class CaptureInstance:
    """One row of cdc.change_tables with its columns.

    Attributes:
        object_id: id of the change table.
        start_lsn: low endpoint, None until the capture process has recognised the instance.
        index_columns: names of the columns that identify a row, in key order.
        create_ticks: when it was enabled.
    """

    name: str
    object_id: int
    source_object_id: int
    start_lsn: bytes | None
    supports_net_changes: bool
    has_drop_pending: bool
    role_name: str | None
    index_name: str | None
    filegroup_name: str | None
    create_ticks: int
    partition_switch: bool
    columns: tuple[CapturedColumn, ...]
    index_columns: tuple[str, ...]

    def column(self, name: str) -> CapturedColumn | None:
        """The captured column of that name, case-insensitively."""
        folded = name.rstrip().casefold()
        return next((c for c in self.columns if c.name.casefold() == folded), None)


def is_enabled(database: Database) -> bool:
    """Whether change data capture is enabled for the database."""
    return bool(database.options.get("is_cdc_enabled"))


def require_enabled(database: Database, procedure: str) -> None:
    """Raises error 22901 unless the database is enabled."""
    if not is_enabled(database):
        raise messages.error(22901, database.name, procedure=procedure)


def capture_instances(connection: apsw.Connection, database: Database) -> list[CaptureInstance]:
    """Every capture instance of a database, in the order of their change tables' ids.

    Args:
        connection: what to read with; inside a write transaction it sees that transaction.
        database: the database; an empty list where it is not enabled.
    """
    return _read(connection, database) if is_enabled(database) else []


def find_instance(
    connection: apsw.Connection, database: Database, name: str
) -> CaptureInstance | None:
    """The capture instance of that name, case-insensitively, or None.

    Trailing blanks do not count, as in any comparison of texts.
    """
    if not is_enabled(database):
        return None
    table = metadata_table(database, CHANGE_TABLES)
    names = (
        f'SELECT {column_list(table, ("object_id", "capture_instance"))} FROM "{table.sqlite_name}"'
    )
    # As it is spelled first: to look at a thousand names in any case takes a millisecond.
    spelled = f"{sqlite_column(table, 'capture_instance')} = ? COLLATE BINARY"
    found = connection.execute(f"{names} WHERE {spelled}", (name,)).fetchone()
    if found is None:
        folded = name.rstrip().casefold()
        named = connection.execute(f"{names} ORDER BY {sqlite_column(table, 'object_id')}")
        found = next((row for row in named if row[1].rstrip().casefold() == folded), None)
    # The columns are read of the one that is found: of a thousand they would take 20 ms.
    return None if found is None else _read(connection, database, found[0])[0]


def _read(
    connection: apsw.Connection, database: Database, object_id: int | None = None
) -> list[CaptureInstance]:
    """All capture instances, or the one whose change table has an id."""

    def rows(definition: TableDefinition, names: tuple[str, ...] | None, order: str) -> apsw.Cursor:
        table = metadata_table(database, definition)
        of_one = "" if object_id is None else f" WHERE {sqlite_column(table, 'object_id')} = ?"
        return connection.execute(
            f'SELECT {column_list(table, names)} FROM "{table.sqlite_name}"{of_one}'
            f" ORDER BY {sqlite_column(table, 'object_id')}, {sqlite_column(table, order)}",
            () if object_id is None else (object_id,),
        )

    columns: dict[int, list[CapturedColumn]] = {}
    for found, name, column_id, column_type, ordinal, is_computed in rows(
        CAPTURED_COLUMNS, None, "column_ordinal"
    ):
        columns.setdefault(found, []).append(
            CapturedColumn(name, column_id, column_type, ordinal, bool(is_computed))
        )
    index_columns: dict[int, list[str]] = {}
    for found, name in rows(INDEX_COLUMNS, ("object_id", "column_name"), "index_ordinal"):
        index_columns.setdefault(found, []).append(name)
    return [
        CaptureInstance(
            name=row[3],
            object_id=row[0],
            source_object_id=row[2],
            start_lsn=row[4],
            supports_net_changes=bool(row[6]),
            has_drop_pending=bool(row[7]),
            role_name=row[8],
            index_name=row[9],
            filegroup_name=row[10],
            create_ticks=row[11],
            partition_switch=bool(row[12]),
            columns=tuple(columns.get(row[0], ())),
            index_columns=tuple(index_columns.get(row[0], ())),
        )
        for row in rows(CHANGE_TABLES, None, "object_id")
    ]


def source_instances(
    connection: apsw.Connection, database: Database, source: Table
) -> list[CaptureInstance]:
    """The capture instances of a source table (at most two)."""
    return [
        instance
        for instance in capture_instances(connection, database)
        if instance.source_object_id == source.object_id
    ]
