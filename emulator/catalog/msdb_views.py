"""What msdb shows of the Agent's jobs; msdb.dbo.cdc_jobs itself is a table.

https://learn.microsoft.com/sql/relational-databases/system-tables/dbo-sysjobs-transact-sql
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from emulator.catalog.object_views import datetime_of
from emulator.catalog.registry import Row, view
from emulator.cdc import jobs
from emulator.types import pack_guid

if TYPE_CHECKING:
    from emulator.catalog.context import SessionContext
    from emulator.cdc.jobs import JobParameters
    from emulator.storage.engine import Database


def _jobs(context: SessionContext) -> Iterator[tuple[Database, JobParameters]]:
    for job in jobs.jobs_of(context.store.connection, context.engine):
        database = context.engine.database_by_id(job.database_id)
        if database is not None:
            yield database, job


@view(
    "msdb:dbo.sysjobs",
    """job_id uniqueidentifier!, originating_server_id int!, name sysname!, enabled tinyint!,
 description nvarchar(512), start_step_id int!, category_id int!, owner_sid varbinary(85)!,
 date_created datetime!, date_modified datetime!, version_number int!""",
)
def _sysjobs(context: SessionContext, _database: Database) -> Iterator[Row]:
    for database, job in _jobs(context):
        capture = job.job_type == jobs.CAPTURE
        created = datetime_of(database.create_ticks)
        yield (
            *(pack_guid(job.job_id), 0, jobs.job_name(database, job.job_type), 1),
            "CDC Log Scan Job" if capture else "CDC Cleanup Job",
            *(1, 16 if capture else 17, b"\x01", created, created, 1),
        )


@view(
    "msdb:dbo.sysjobsteps",
    """job_id uniqueidentifier!, step_id int!, step_name sysname!, subsystem nvarchar(40)!,
 command nvarchar(max), database_name sysname""",
)
def _sysjobsteps(context: SessionContext, _database: Database) -> Iterator[Row]:
    for database, job in _jobs(context):
        capture = job.job_type == jobs.CAPTURE
        procedure = "sp_MScdc_capture_job" if capture else "sp_MScdc_cleanup_job"
        yield (
            *(pack_guid(job.job_id), 1),
            "Change Data Capture Collection Agent"
            if capture
            else "Change Data Capture Cleanup Agent",
            *("TSQL", f"sys.{procedure}", database.name),
        )


@view(
    "msdb:dbo.sysjobactivity",
    """session_id int!, job_id uniqueidentifier!, run_requested_date datetime,
 start_execution_date datetime, last_executed_step_id int, stop_execution_date datetime""",
)
def _sysjobactivity(context: SessionContext, _database: Database) -> Iterator[Row]:
    now = datetime_of(context.engine.clock.now_ticks())
    for database, job in _jobs(context):
        running = jobs.is_running(context.engine, database, job.job_type)
        started = now if running else None
        yield 1, pack_guid(job.job_id), started, started, None, None


@view(
    "msdb:dbo.restorehistory",
    """restore_history_id int!, restore_date datetime, destination_database_name nvarchar(128),
 user_name nvarchar(128), backup_set_id int!, restore_type char(1)""",
)
def _restorehistory(_context: SessionContext, _database: Database) -> tuple[Row, ...]:
    return ()
