"""sys.sp_cdc_enable_db and sys.sp_cdc_disable_db.

https://learn.microsoft.com/sql/relational-databases/system-stored-procedures/sys-sp-cdc-enable-db-transact-sql
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from tailrace_emulator import messages
from tailrace_emulator.cdc import jobs, scan_position
from tailrace_emulator.cdc.capture_instance import capture_instances, is_enabled, require_enabled
from tailrace_emulator.cdc.disable import drop_instance
from tailrace_emulator.cdc.job_runs import forget_database
from tailrace_emulator.cdc.metadata_tables import (
    CDC_SCHEMA,
    CDC_USER,
    METADATA_TABLES,
    create_metadata_table,
)
from tailrace_emulator.cdc.principals import add_principal, find_principal, remove_principal
from tailrace_emulator.storage import ddl

if TYPE_CHECKING:
    import apsw

    from tailrace_emulator.storage.engine import Database, Engine

SYSTEM_DATABASES: Final = frozenset({"master", "model", "msdb", "tempdb", "distribution"})


def enable_database(engine: Engine, database: Database) -> bool:
    """Creates the cdc schema, user and metadata tables and marks the database.

    Returns:
        False when it was enabled already (SQL Server reports message 22905 then).

    Raises:
        SqlError: 22989 for a system database, 22906 when a schema or user cdc exists already.
    """
    if database.name.casefold() in SYSTEM_DATABASES:
        raise messages.error(22989, database.name, procedure="sp_cdc_enable_db")
    with engine.write() as connection:
        if is_enabled(database):
            return False
        if database.schema_name(CDC_SCHEMA) or find_principal(database, CDC_USER):
            raise messages.error(22906, database.name, procedure="sp_cdc_enable_db")
        drop_jobs_of(connection, database)  # a release before this one left those of dropped ones
        ddl.create_schema(connection, database, CDC_SCHEMA)
        add_principal(connection, database, CDC_USER, "S")
        for definition in METADATA_TABLES:
            create_metadata_table(connection, database, definition, CDC_SCHEMA)
        scan_position.begin(connection, database, database.log.allocate_lsn(connection))
        database.set_option("is_cdc_enabled", 1, connection)
    return True


def disable_database(engine: Engine, database: Database) -> None:
    """Removes every capture instance, the metadata tables, the schema, the user and the jobs.

    Raises:
        SqlError: 22901 when the database is not enabled.
    """
    require_enabled(database, "sp_cdc_disable_db")
    with engine.write() as connection:
        for instance in capture_instances(connection, database):
            drop_instance(connection, database, instance)
        for definition in METADATA_TABLES:
            table = database.table(CDC_SCHEMA, definition.name)
            if table is not None:
                ddl.drop_table(connection, database, table)
        remove_principal(connection, database, CDC_USER)
        ddl.drop_schema(connection, database, CDC_SCHEMA)
        scan_position.forget(connection, database)
        database.set_option("is_cdc_enabled", 0, connection)
        drop_jobs_of(connection, database)


def keep_job_names(connection: apsw.Connection, database: Database) -> None:
    """Before the database gets another name: the jobs that it has are called as they were.

    Args:
        connection: of the write that renames it.
    """
    for job in jobs.jobs_of(connection, database.engine, database):
        jobs.name_job(connection, database, job.job_type, jobs.job_name(database, job.job_type))


def drop_jobs_of(connection: apsw.Connection, database: Database) -> None:
    """Removes a database's jobs, which msdb has; what is kept of their runs goes with the commit.

    Args:
        connection: of the write that disables the database or drops it.
    """
    jobs.drop_jobs(connection, database.engine, database)
    forget_database(database.engine, database)
