"""What change data capture adds to the catalog: its modules' declarations, what it has generated.

In SQL Server the query functions, the procedures of schema cdc and the trigger for DDL are T-SQL.
The query functions' text can be read here too. The procedures and the trigger are code of the
server, whose definition is NULL, as that of any module that does not show its text.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import TYPE_CHECKING, Final

from tailrace_emulator.catalog.database_objects import DatabaseObject, GeneratedObject, derived_id
from tailrace_emulator.catalog.extensions import CatalogExtension, DatabaseFacts, DatabaseTrigger
from tailrace_emulator.cdc.capture_instance import CaptureInstance, capture_instances, is_enabled
from tailrace_emulator.cdc.metadata_tables import (
    CDC_SCHEMA,
    CHANGE_TABLES,
    DDL_TRIGGER,
    metadata_table,
)
from tailrace_emulator.cdc.query_function_text import query_function_text
from tailrace_emulator.cdc.query_functions import (
    ALL_CHANGES_PREFIX,
    NET_CHANGES_PREFIX,
    all_changes_columns,
    net_changes_columns,
)
from tailrace_emulator.cdc.replication import is_published, is_replicated
from tailrace_emulator.cdc.runtime import runtime
from tailrace_emulator.cdc.surface import admin_procedures as cdc_admin_procedures
from tailrace_emulator.cdc.surface import (
    help_job,
    job_procedures,
    msdb_history_views,
    msdb_views,
)
from tailrace_emulator.cdc.surface import mapping_procedures as cdc_mapping_procedures
from tailrace_emulator.cdc.surface import own_job_procedures as cdc_own_job_procedures
from tailrace_emulator.cdc.surface import own_schedule_procedures as cdc_own_schedule_procedures
from tailrace_emulator.cdc.surface import procedures as cdc_procedures
from tailrace_emulator.cdc.surface import replication_procedures as cdc_replication_procedures
from tailrace_emulator.cdc.surface import views as cdc_views
from tailrace_emulator.cdc.surface import wrapper_procedure as cdc_wrapper_procedure
from tailrace_emulator.cdc.surface.declarations import DECLARED
from tailrace_emulator.cdc.surface.functions import change_function
from tailrace_emulator.storage.catalog_state import ModuleParameter
from tailrace_emulator.storage.model import Column
from tailrace_emulator.values.types import LSN, SqlType, nvarchar

if TYPE_CHECKING:
    from tailrace_emulator.catalog.context import SessionContext
    from tailrace_emulator.catalog.table_functions import TableFunction
    from tailrace_emulator.storage.engine import Database, Engine
    from tailrace_emulator.storage.model import Table

AGENT_SERVICE: Final = "SQL Server Agent (MSSQLSERVER)"

_DECLARING_MODULES = (
    cdc_admin_procedures,
    cdc_mapping_procedures,
    cdc_own_job_procedures,
    cdc_own_schedule_procedures,
    cdc_procedures,
    cdc_replication_procedures,
    cdc_views,
    cdc_wrapper_procedure,
    help_job,
    job_procedures,
    msdb_history_views,
    msdb_views,
)
"""Importing them declares what they add."""

_PARAMETERS: Final = (
    ModuleParameter("@from_lsn", LSN),
    ModuleParameter("@to_lsn", LSN),
    ModuleParameter("@row_filter_option", nvarchar(30)),
)
"""Of the query functions."""

_DDL_EVENTS: Final = (
    *((22, "ALTER_TABLE"), (23, "DROP_TABLE")),
    *((25, "ALTER_INDEX"), (26, "DROP_INDEX")),
)
"""Of the trigger for DDL. See: sys.events, the numbers. Inferred: SELECT type_desc FROM
sys.trigger_events of an enabled database."""

CDC_PROCEDURES: Final = (
    "sp_batchinsert_lsn_time_mapping",
    "sp_ins_dummy_lsn_time_mapping",
    "sp_ins_instance_enabling_lsn_time_mapping",
    "sp_ins_lsn_time_mapping",
)
"""Internal procedures that enabling a database creates in schema cdc."""


class CaptureCatalog(CatalogExtension):
    """The catalog's share of change data capture and of SQL Server Agent."""

    refused_in_msdb = job_procedures.REFUSED_IN_MSDB

    def __init__(self) -> None:
        super().__init__(DECLARED)

    def table_function(
        self, context: SessionContext, database: Database, _schema: str, name: str
    ) -> TableFunction | None:
        """The query function ``cdc.name`` of a capture instance, or None."""
        return change_function(context, database, name)

    def objects(self, context: SessionContext, database: Database) -> Iterator[GeneratedObject]:
        """The procedures of schema cdc and the query functions of every capture instance."""
        if not is_enabled(database):
            return
        for name in CDC_PROCEDURES:
            item = DatabaseObject(derived_id(0, name), CDC_SCHEMA, name, "P", is_ms_shipped=True)
            yield GeneratedObject(item)
        for instance in capture_instances(context.store.connection, database):
            yield _query_function(database, instance, net=False)
            if instance.supports_net_changes:
                yield _query_function(database, instance, net=True)

    def database_triggers(self, database: Database) -> Iterable[DatabaseTrigger]:
        """The trigger that SQL Server follows the DDL of source tables by."""
        if not is_enabled(database):
            return ()
        created = metadata_table(database, CHANGE_TABLES).create_ticks
        return (DatabaseTrigger(DDL_TRIGGER, created, _DDL_EVENTS),)

    def facts(self, database: Database) -> DatabaseFacts:
        """Whether it is enabled, may have publications, and has a log that waits for the scan."""
        enabled = is_enabled(database)
        waits = enabled and database.log.last_commit() is not None
        return DatabaseFacts(enabled, is_published(database), waits)

    def is_replicated(self, database: Database, table: Table) -> bool:
        """Whether a table is an article of a publication."""
        return is_replicated(database, table)

    def services(self, engine: Engine) -> Iterable[tuple[str, bool]]:
        """SQL Server Agent."""
        return ((AGENT_SERVICE, runtime(engine).agent_running),)


def _query_function(database: Database, instance: CaptureInstance, *, net: bool) -> GeneratedObject:
    name = f"{NET_CHANGES_PREFIX if net else ALL_CHANGES_PREFIX}{instance.name}"
    item = DatabaseObject(
        derived_id(instance.object_id, name),
        CDC_SCHEMA,
        name,
        "IF",
        0,
        instance.create_ticks,
        instance.create_ticks,
        True,
    )
    table = database.table_by_id(instance.object_id)
    if table is None:
        return GeneratedObject(item, _PARAMETERS)
    named = net_changes_columns if net else all_changes_columns
    text: Callable[[], str] = partial(query_function_text, instance, table, net=net)
    return GeneratedObject(item, _PARAMETERS, lambda: _columns(named(table)), text)


def _columns(named: Iterable[tuple[str, SqlType]]) -> tuple[Column, ...]:
    return tuple(Column(number, *column) for number, column in enumerate(named, 1))
