"""Change tables in files of older releases: they say by their spelling only what they are."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from tailrace_emulator.cdc.change_table import COMMAND_ID, METADATA_COLUMNS, encoded_columns
from tailrace_emulator.cdc.metadata_tables import CDC_SCHEMA
from tailrace_emulator.storage.catalog_store import table_to_text
from tailrace_emulator.storage.encoded_rows import add_hidden_columns

if TYPE_CHECKING:
    import apsw

    from tailrace_emulator.storage.engine import Database
    from tailrace_emulator.storage.model import Table


def adopt_change_tables(connection: apsw.Connection, database: Database) -> None:
    """Say of every change table that is not known as one which of its columns are kept encoded.

    Args:
        connection: inside a write transaction.
    """
    for table in database.tables():
        if table.encoded is None and _is_spelled_so(table):
            add_hidden_columns(connection, table)
            known = replace(table, encoded=encoded_columns(table.columns))
            database.put_table(connection, known, table_to_text(known))


def _is_spelled_so(table: Table) -> bool:
    return (
        table.is_ms_shipped
        and table.schema == CDC_SCHEMA
        and table.columns[0].name == METADATA_COLUMNS[0][0]
        and table.columns[-1].name == COMMAND_ID
    )
