"""What msdb shows of the Agent's jobs; msdb.dbo.cdc_jobs itself is a table.

https://learn.microsoft.com/sql/relational-databases/system-tables/dbo-sysjobs-transact-sql
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from emulator.catalog.object_views import datetime_of
from emulator.catalog.registry import Row, view
from emulator.cdc import jobs, replication
from emulator.cdc.log_readers import all_jobs, job_name
from emulator.types import pack_guid

if TYPE_CHECKING:
    from emulator.catalog.context import SessionContext
    from emulator.cdc.jobs import JobParameters
    from emulator.storage.engine import Database


def _jobs(context: SessionContext) -> Iterator[tuple[Database, JobParameters]]:
    return all_jobs(context.store.connection, context.engine)


@dataclass(frozen=True, slots=True)
class _Kind:
    """What the views say of a type of job."""

    description: str
    category_id: int
    step_name: str
    subsystem: str
    command: str


_KINDS: Final = {
    jobs.CAPTURE: _Kind(
        "CDC Log Scan Job",
        16,
        "Change Data Capture Collection Agent",
        "TSQL",
        "sys.sp_MScdc_capture_job",
    ),
    jobs.CLEANUP: _Kind(
        "CDC Cleanup Job",
        17,
        "Change Data Capture Cleanup Agent",
        "TSQL",
        "sys.sp_MScdc_cleanup_job",
    ),
    replication.LOG_READER: _Kind(
        "No description available.",
        13,
        "Run agent.",
        "LogReader",
        "-Continuous",
    ),
}


@view(
    "msdb:dbo.sysjobs",
    """job_id uniqueidentifier!, originating_server_id int!, name sysname!, enabled tinyint!,
 description nvarchar(512), start_step_id int!, category_id int!, owner_sid varbinary(85)!,
 date_created datetime!, date_modified datetime!, version_number int!""",
)
def _sysjobs(context: SessionContext, _database: Database) -> Iterator[Row]:
    for database, job in _jobs(context):
        kind = _KINDS[job.job_type]
        created = datetime_of(database.create_ticks)
        yield (
            *(pack_guid(job.job_id), 0, job_name(database, job.job_type), 1, kind.description),
            *(1, kind.category_id, b"\x01", created, created, 1),
        )


@view(
    "msdb:dbo.sysjobsteps",
    """job_id uniqueidentifier!, step_id int!, step_name sysname!, subsystem nvarchar(40)!,
 command nvarchar(max), database_name sysname""",
)
def _sysjobsteps(context: SessionContext, _database: Database) -> Iterator[Row]:
    for database, job in _jobs(context):
        kind = _KINDS[job.job_type]
        yield (
            *(pack_guid(job.job_id), 1, kind.step_name, kind.subsystem, kind.command),
            database.name,
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


AGENT_START: Final = 64
DAILY: Final = 4
_TWO_O_CLOCK: Final = 20_000
"""hhmmss"""


@view(
    "msdb:dbo.sysschedules",
    """schedule_id int!, schedule_uid uniqueidentifier!, name sysname!, enabled int!,
 freq_type int!, freq_interval int!, freq_subday_type int!, active_start_date int!,
 active_start_time int!""",
)
def _sysschedules(context: SessionContext, _database: Database) -> Iterator[Row]:
    """The capture job starts with the Agent; the cleanup job runs daily at 2 A.M."""
    for number, (_, job) in enumerate(_jobs(context), 1):
        cleanup = job.job_type == jobs.CLEANUP
        yield (
            *(number, pack_guid(job.job_id)),
            f"CDC {'cleanup' if cleanup else 'capture'} agent schedule.",
            *(1, DAILY if cleanup else AGENT_START, 1, 1, 19900101),
            _TWO_O_CLOCK if cleanup else 0,
        )


@view(
    "msdb:dbo.sysjobschedules",
    "schedule_id int!, job_id uniqueidentifier!, next_run_date int!, next_run_time int!",
)
def _sysjobschedules(context: SessionContext, _database: Database) -> Iterator[Row]:
    for number, (_, job) in enumerate(_jobs(context), 1):
        time = _TWO_O_CLOCK if job.job_type == jobs.CLEANUP else 0
        yield number, pack_guid(job.job_id), 0, time
