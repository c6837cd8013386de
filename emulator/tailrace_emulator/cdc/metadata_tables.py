"""The metadata tables that sp_cdc_enable_db creates in schema cdc, in documented column order.

https://learn.microsoft.com/sql/relational-databases/system-tables/change-data-capture-tables-transact-sql
They are ordinary tables of the database, so any SELECT reads them; only this package writes them.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from tailrace_emulator.messages.errors import INTERNAL, SqlError
from tailrace_emulator.storage import ddl
from tailrace_emulator.storage.model import Column, Index
from tailrace_emulator.values.types import (
    BIGINT,
    BIT,
    DATETIME,
    INT,
    LSN,
    MAX,
    SYSNAME,
    SYSNAME_USER_TYPE_ID,
    TINYINT,
    UNIQUEIDENTIFIER,
    SqlType,
    StorageValue,
    nvarchar,
    varbinary,
)

if TYPE_CHECKING:
    import apsw

    from tailrace_emulator.storage.engine import Database
    from tailrace_emulator.storage.model import Table

CDC_SCHEMA: Final = "cdc"
CDC_USER: Final = "cdc"
DDL_TRIGGER: Final = "tr_MScdc_ddl_event"


@dataclass(frozen=True, slots=True)
class TableDefinition:
    """Name, columns (name, type, nullable) and unique clustered key (names) of a system table."""

    name: str
    columns: tuple[tuple[str, SqlType, bool], ...]
    key: tuple[str, ...]
    key_name: str
    unique: bool = True
    also_indexed: tuple[str, ...] = ()

    def model_columns(self) -> tuple[Column, ...]:
        """Its columns as storage takes them, ids counted from 1."""
        return tuple(
            Column(
                column_id,
                name,
                sql_type,
                nullable,
                user_type_id=SYSNAME_USER_TYPE_ID if sql_type == SYSNAME else 0,
            )
            for column_id, (name, sql_type, nullable) in enumerate(self.columns, 1)
        )

    def model_indexes(self) -> tuple[Index, ...]:
        """Its clustered index, and one more for each column that is looked up by."""
        ids = {name: column_id for column_id, (name, _, _) in enumerate(self.columns, 1)}
        further = (
            Index(number, f"{self.name}_{name}_idx", (ids[name],), (False,))
            for number, name in enumerate(self.also_indexed, 2)
        )
        return (
            Index(
                1,
                self.key_name,
                tuple(ids[name] for name in self.key),
                (False,) * len(self.key),
                unique=self.unique,
                clustered=True,
            ),
            *further,
        )


CHANGE_TABLES: Final = TableDefinition(
    "change_tables",
    (
        ("object_id", INT, False),
        ("version", INT, True),
        ("source_object_id", INT, True),
        ("capture_instance", SYSNAME, False),
        ("start_lsn", LSN, True),
        ("end_lsn", LSN, True),
        ("supports_net_changes", BIT, True),
        ("has_drop_pending", BIT, True),
        ("role_name", SYSNAME, True),
        ("index_name", SYSNAME, True),
        ("filegroup_name", SYSNAME, True),
        ("create_date", DATETIME, True),
        ("partition_switch", BIT, False),
    ),
    ("object_id",),
    "change_tables_clustered_idx",
)

CAPTURED_COLUMNS: Final = TableDefinition(
    "captured_columns",
    (
        ("object_id", INT, False),
        ("column_name", SYSNAME, False),
        ("column_id", INT, True),
        ("column_type", SYSNAME, False),
        ("column_ordinal", INT, False),
        ("is_computed", BIT, True),
    ),
    ("object_id", "column_ordinal"),
    "captured_columns_clustered_idx",
)

DDL_HISTORY: Final = TableDefinition(
    "ddl_history",
    (
        ("source_object_id", INT, True),
        ("object_id", INT, False),
        ("required_column_update", BIT, True),
        ("ddl_command", nvarchar(MAX), True),
        ("ddl_lsn", LSN, False),
        ("ddl_time", DATETIME, True),
    ),
    ("object_id", "ddl_lsn"),
    "ddl_history_clustered_idx",
    unique=False,  # one transaction may hold several DDL statements
)

INDEX_COLUMNS: Final = TableDefinition(
    "index_columns",
    (
        ("object_id", INT, False),
        ("column_name", SYSNAME, False),
        ("index_ordinal", TINYINT, False),
        ("column_id", INT, False),
    ),
    ("object_id", "index_ordinal"),
    "index_columns_clustered_idx",
)

LSN_TIME_MAPPING: Final = TableDefinition(
    "lsn_time_mapping",
    (
        ("start_lsn", LSN, False),
        ("tran_begin_time", DATETIME, True),
        ("tran_end_time", DATETIME, True),
        ("tran_id", varbinary(10), True),
        ("tran_begin_lsn", LSN, True),
    ),
    ("start_lsn",),
    "lsn_time_mapping_clustered_idx",
    also_indexed=("tran_end_time",),
)

METADATA_TABLES: Final = (
    CAPTURED_COLUMNS,
    CHANGE_TABLES,
    DDL_HISTORY,
    INDEX_COLUMNS,
    LSN_TIME_MAPPING,
)

CDC_JOBS: Final = TableDefinition(
    "cdc_jobs",
    (
        ("database_id", INT, False),
        ("job_type", nvarchar(20), False),
        ("job_id", UNIQUEIDENTIFIER, True),
        ("maxtrans", INT, True),
        ("maxscans", INT, True),
        ("continuous", BIT, True),
        ("pollinginterval", BIGINT, True),
        ("retention", BIGINT, True),
        ("threshold", BIGINT, True),
    ),
    ("database_id", "job_type"),
    "PK_cdc_jobs",
)
"""msdb.dbo.cdc_jobs."""


def create_metadata_table(
    connection: apsw.Connection, database: Database, definition: TableDefinition, schema: str
) -> Table:
    """Creates the stored table of a definition, inside the caller's write transaction."""
    return ddl.create_table(
        connection,
        database,
        schema,
        definition.name,
        definition.model_columns(),
        indexes=definition.model_indexes(),
        is_ms_shipped=True,
    )


def metadata_table(database: Database, definition: TableDefinition, schema: str = "cdc") -> Table:
    """The stored table of that definition.

    Raises:
        SqlError: 50999 when the database lacks it but should not.
    """
    table = database.table(schema, definition.name)
    if table is None:
        raise SqlError(
            INTERNAL,
            f"Table '{schema}.{definition.name}' is missing from database '{database.name}'.",
        )
    return table


def column_list(table: Table, names: Sequence[str] | None = None) -> str:
    """SQLite names of some columns (all by default), comma-separated."""
    if names is None:
        return ", ".join(column.sqlite_name for column in table.columns)
    return ", ".join(sqlite_column(table, name) for name in names)


def sqlite_column(table: Table, name: str) -> str:
    """The SQLite name of a column that must exist."""
    column = table.column(name)
    if column is None:
        raise SqlError(INTERNAL, f"Column '{name}' is missing from '{table.schema}.{table.name}'.")
    return column.sqlite_name


def insert_rows(
    connection: apsw.Connection, table: Table, rows: Iterable[tuple[StorageValue, ...]]
) -> None:
    """Appends full rows, in column order, inside the caller's write transaction."""
    marks = ", ".join("?" * len(table.columns))
    connection.executemany(
        f'INSERT INTO "{table.sqlite_name}" ({column_list(table)}) VALUES ({marks})', rows
    )


def delete_rows(
    connection: apsw.Connection, table: Table, column: str, value: StorageValue
) -> None:
    """Deletes the rows where a column equals a value."""
    connection.execute(
        f'DELETE FROM "{table.sqlite_name}" WHERE {sqlite_column(table, column)} = ?', (value,)
    )
