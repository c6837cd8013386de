"""Change data capture as the engine meets it: its questions and reports.

An engine that is to have change data capture is created with one of these.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from tailrace_emulator.catalog.extensions import CatalogExtension
from tailrace_emulator.cdc import guards
from tailrace_emulator.cdc.enable_database import drop_jobs_of, keep_job_names
from tailrace_emulator.cdc.metadata_tables import CDC_SCHEMA
from tailrace_emulator.cdc.older_files import adopt_change_tables
from tailrace_emulator.cdc.replicated_size import ReplicatedSizes
from tailrace_emulator.cdc.surface.catalog import CaptureCatalog
from tailrace_emulator.storage.extensions import Changes, CurrentRows, Extension, Rows

if TYPE_CHECKING:
    from collections.abc import Collection

    import apsw

    from tailrace_emulator.storage.engine import Database
    from tailrace_emulator.storage.model import Column, Table


class ChangeDataCapture(Extension):
    """Change data capture on one engine."""

    schemas: ClassVar[frozenset[str]] = frozenset({CDC_SCHEMA})

    def __init__(self) -> None:
        super().__init__({CatalogExtension: CaptureCatalog()})
        self._sizes = ReplicatedSizes()

    def opened(self, connection: apsw.Connection, database: Database) -> None:
        """Files of older releases have change tables that do not say what they are."""
        adopt_change_tables(connection, database)

    def renaming_database(self, connection: apsw.Connection, database: Database) -> None:
        """The names of its jobs stay as they are."""
        keep_job_names(connection, database)

    def dropping_database(self, connection: apsw.Connection, database: Database) -> None:
        """Its jobs, which msdb has, go too."""
        drop_jobs_of(connection, database)

    def altering(self, table: Table, column: Column | None = None) -> None:
        """See :func:`tailrace_emulator.cdc.guards.refuse_alter`."""
        guards.refuse_alter(table, column)

    def renaming_column(
        self, connection: apsw.Connection, database: Database, table: Table, column_id: int
    ) -> None:
        """See :func:`tailrace_emulator.cdc.guards.refuse_rename_of_column`."""
        guards.refuse_rename_of_column(connection, database, table, column_id)

    def dropping_table(self, database: Database, table: Table) -> None:
        """See :func:`tailrace_emulator.cdc.guards.refuse_drop`."""
        guards.refuse_drop(database, table)

    def dropping_index(
        self, connection: apsw.Connection, database: Database, table: Table, name: str
    ) -> None:
        """See :func:`tailrace_emulator.cdc.guards.refuse_index_removal`."""
        guards.refuse_index_removal(connection, database, table, name)

    def switching(
        self, connection: apsw.Connection, database: Database, table: Table, *, is_source: bool
    ) -> None:
        """See :func:`tailrace_emulator.cdc.guards.refuse_switch`."""
        guards.refuse_switch(connection, database, table, is_source=is_source)

    def inserting(self, database: Database, table: Table, rows: Rows) -> Rows:
        """Large values of a tracked table are looked at."""
        return self._sizes.checked_rows(database, table, rows) if table.is_tracked else rows

    def updating(
        self,
        database: Database,
        table: Table,
        changes: Changes,
        current: CurrentRows,
        but: Collection[int] = (),
    ) -> Changes:
        """New large values of a tracked table are looked at."""
        if not table.is_tracked:
            return changes
        return self._sizes.checked_changes(database, table, changes, current, but)

    def extending(self, database: Database, table: Table, column: Column, data: object) -> None:
        """What is added to a large value of a tracked table is looked at."""
        if table.is_tracked:
            self._sizes.check_addition(database, table, column, data)
