"""What msdb shows of the Agent's jobs; msdb.dbo.cdc_jobs itself is a table.

Columns, their order and types are the documented ones. Inferred: the values of what CDC's jobs do
not use (notifications, retries, descriptions of categories).

https://learn.microsoft.com/sql/relational-databases/system-tables/sql-server-agent-tables-transact-sql
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from tailrace_emulator.catalog.object_views import datetime_of
from tailrace_emulator.catalog.registry import Columns, Row
from tailrace_emulator.cdc import jobs, replication
from tailrace_emulator.cdc.log_readers import all_jobs, job_name
from tailrace_emulator.cdc.own_jobs import OwnJob, Schedule, Step, is_own, own_job, today
from tailrace_emulator.cdc.surface.declarations import view
from tailrace_emulator.values.clock import TICKS_PER_SECOND
from tailrace_emulator.values.types import TICKS_PER_DAY, pack_guid

if TYPE_CHECKING:
    from tailrace_emulator.catalog.context import SessionContext
    from tailrace_emulator.cdc.jobs import JobParameters
    from tailrace_emulator.storage.engine import Database


def date_and_time(ticks: int) -> tuple[int, int]:
    """A moment as yyyymmdd and hhmmss; zeros for none."""
    if not ticks:
        return 0, 0
    return today(ticks), duration(ticks % TICKS_PER_DAY // TICKS_PER_SECOND)


def duration(seconds: int) -> int:
    """Seconds as hhmmss; more than 24 hours have as many digits as they need."""
    return seconds // 3600 * 10_000 + seconds // 60 % 60 * 100 + seconds % 60


def msdb_jobs(context: SessionContext) -> Iterator[tuple[Database, JobParameters]]:
    """Every job with its database."""
    return all_jobs(context.store.connection, context.engine)


@dataclass(frozen=True, slots=True)
class JobKind:
    """What the views say of a type of job."""

    description: str
    category_id: int
    step_name: str
    subsystem: str
    command: str
    schedule: str


JOB_KINDS: Final = {
    jobs.CAPTURE: JobKind(
        "CDC Log Scan Job",
        13,
        "Change Data Capture Collection Agent",
        "TSQL",
        "sys.sp_MScdc_capture_job",
        "CDC capture agent schedule.",
    ),
    jobs.CLEANUP: JobKind(
        "CDC Cleanup Job",
        16,
        "Change Data Capture Cleanup Agent",
        "TSQL",
        "sys.sp_MScdc_cleanup_job",
        "CDC cleanup agent schedule.",
    ),
    replication.LOG_READER: JobKind(
        "No description available.",
        13,
        "Run agent.",
        "LogReader",
        "-Continuous",
        "Replication agent schedule.",
    ),
}


def kind_of(database: Database, job_type: str) -> JobKind:
    """What the views say of a job."""
    own = own_job(database.engine, job_type) if is_own(job_type) else None
    if own is None:
        return JOB_KINDS[job_type]
    step = own.steps[0] if own.steps else Step("", "", "")
    schedule = own.schedule.name if own.schedule else ""
    return JobKind(own.description, 0, step.name, "TSQL", step.command, schedule)


CATEGORIES: Final = {
    0: "[Uncategorized (Local)]",
    13: "REPL-LogReader",
    16: "REPL-Checkup",
}
"""Names of the job categories that the jobs here have."""

_SYSJOBS: Final = Columns(
    """job_id uniqueidentifier!, originating_server_id int! = 0, name sysname!, enabled tinyint!,
 description nvarchar(512), start_step_id int! = 1, category_id int!, owner_sid varbinary(85)!,
 notify_level_eventlog int!, notify_level_email int! = 0, notify_level_netsend int! = 0,
 notify_level_page int! = 0, notify_email_operator_id int! = 0,
 notify_netsend_operator_id int! = 0, notify_page_operator_id int! = 0, delete_level int! = 0,
 date_created datetime!, date_modified datetime!, version_number int! = 1"""
)
_ON_FAILURE: Final = 2


@view("msdb:dbo.sysjobs", _SYSJOBS)
def _sysjobs(context: SessionContext, _database: Database) -> Iterator[Row]:
    for database, job in msdb_jobs(context):
        kind = kind_of(database, job.job_type)
        own = own_job(context.engine, job.job_type)
        created = datetime_of(own.created if own else database.create_ticks)
        yield _SYSJOBS.row(
            job_id=pack_guid(job.job_id),
            name=job_name(database, job.job_type),
            enabled=int(own.enabled if own else jobs.is_job_enabled(database, job.job_type)),
            description=kind.description,
            category_id=kind.category_id,
            owner_sid=b"\x01",
            notify_level_eventlog=_ON_FAILURE,
            date_created=created,
            date_modified=datetime_of(own.modified) if own else created,
        )


@view(
    "msdb:dbo.syscategories",
    "category_id int!, category_class int!, category_type tinyint!, name sysname!",
)
def _syscategories(_context: SessionContext, _database: Database) -> Iterator[Row]:
    for number, name in CATEGORIES.items():
        yield number, 1, 1, name


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
_FIRST_DAY: Final = 19_900_101
_LAST_DAY: Final = 99_991_231
_LAST_SECOND: Final = 235_959


_SYSSCHEDULES: Final = Columns(
    """schedule_id int!, schedule_uid uniqueidentifier!, originating_server_id int! = 0,
 name sysname!, owner_sid varbinary(85)!, enabled int! = 1, freq_type int!, freq_interval int!,
 freq_subday_type int!, freq_subday_interval int! = 0, freq_relative_interval int! = 0,
 freq_recurrence_factor int! = 0, active_start_date int!, active_end_date int!,
 active_start_time int!, active_end_time int!, date_created datetime!, date_modified datetime!,
 version_number int! = 1"""
)


@view("msdb:dbo.sysschedules", _SYSSCHEDULES)
def _sysschedules(context: SessionContext, _database: Database) -> Iterator[Row]:
    """The capture job starts with the Agent; the cleanup job runs daily at 2 A.M."""
    for number, (database, job) in enumerate(msdb_jobs(context), 1):
        own = own_job(context.engine, job.job_type)
        if own is not None:
            if own.schedule is not None:
                yield _own_schedule(number, own, own.schedule)
            continue
        cleanup = job.job_type == jobs.CLEANUP
        created = datetime_of(database.create_ticks)
        yield _SYSSCHEDULES.row(
            schedule_id=number,
            schedule_uid=pack_guid(uuid.uuid5(job.job_id, "schedule")),
            name=JOB_KINDS[job.job_type].schedule,
            owner_sid=b"\x01",
            freq_type=DAILY if cleanup else AGENT_START,
            freq_interval=1 if cleanup else 0,
            freq_subday_type=1 if cleanup else 0,
            active_start_date=_FIRST_DAY,
            active_end_date=_LAST_DAY,
            active_start_time=_TWO_O_CLOCK if cleanup else 0,
            active_end_time=_LAST_SECOND,
            date_created=created,
            date_modified=created,
        )


def _own_schedule(number: int, job: OwnJob, schedule: Schedule) -> Row:
    return _SYSSCHEDULES.row(
        schedule_id=number,
        schedule_uid=pack_guid(uuid.uuid5(job.guid, "schedule")),
        name=schedule.name,
        owner_sid=b"\x01",
        enabled=int(schedule.enabled),
        freq_type=schedule.freq_type,
        freq_interval=schedule.freq_interval,
        freq_subday_type=schedule.subday_type,
        freq_subday_interval=schedule.subday_interval,
        active_start_date=schedule.start_date,
        active_end_date=schedule.end_date,
        active_start_time=schedule.start_time,
        active_end_time=schedule.end_time,
        date_created=datetime_of(job.created),
        date_modified=datetime_of(job.modified),
    )


@view(
    "msdb:dbo.sysjobschedules",
    "schedule_id int!, job_id uniqueidentifier!, next_run_date int!, next_run_time int!",
)
def _sysjobschedules(context: SessionContext, _database: Database) -> Iterator[Row]:
    for number, (_, job) in enumerate(msdb_jobs(context), 1):
        own = own_job(context.engine, job.job_type)
        if own is not None:
            if own.schedule is not None:
                due = own.schedule.next_due(context.engine.clock.now_ticks())
                yield number, pack_guid(job.job_id), *date_and_time(due or 0)
            continue
        time = _TWO_O_CLOCK if job.job_type == jobs.CLEANUP else 0
        yield number, pack_guid(job.job_id), 0, time
