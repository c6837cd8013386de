"""msdb's tables of what the Agent's jobs did and do: steps, activity, history.

Columns, their order and types are the documented ones; the texts of the history are inferred.

https://learn.microsoft.com/sql/relational-databases/system-tables/dbo-sysjobhistory-transact-sql
https://learn.microsoft.com/sql/relational-databases/system-tables/dbo-sysjobactivity-transact-sql
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from tailrace_emulator.catalog.object_views import datetime_of
from tailrace_emulator.catalog.registry import Columns, Row
from tailrace_emulator.catalog.server_views import SERVER_NAME
from tailrace_emulator.cdc.job_history import HistoryEntry, JobHistory, RunSource, RunStatus
from tailrace_emulator.cdc.own_jobs import OwnJob, own_job
from tailrace_emulator.cdc.runtime import runtime
from tailrace_emulator.cdc.surface.declarations import view
from tailrace_emulator.cdc.surface.msdb_views import date_and_time, duration, kind_of, msdb_jobs
from tailrace_emulator.values.types import pack_guid

if TYPE_CHECKING:
    from tailrace_emulator.catalog.context import SessionContext
    from tailrace_emulator.cdc.jobs import JobParameters
    from tailrace_emulator.storage.engine import Database

UNKNOWN: Final = 5
"""last_run_outcome of a step that never ran."""
_QUIT_WITH_SUCCESS: Final = 1
_QUIT_WITH_FAILURE: Final = 2
_RETRIES: Final = 10
_RETRY_MINUTES: Final = 1

_OUTCOMES: Final = {
    RunStatus.FAILED: "The job failed.",
    RunStatus.SUCCEEDED: "The job succeeded.",
    RunStatus.CANCELED: "The job was stopped prior to completion by User sa.",
}
_STEP_OUTCOMES: Final = {
    RunStatus.FAILED: "The step failed.",
    RunStatus.SUCCEEDED: "The step succeeded.",
    RunStatus.RETRY: "The step failed.",
    RunStatus.CANCELED: "The step was cancelled (stopped) as the result of a stop job request.",
}


def _history(context: SessionContext) -> JobHistory:
    return runtime(context.engine).job_history


def _message(entry: HistoryEntry, database: Database, job: JobParameters) -> str:
    if entry.step_id:
        error = entry.error
        shown = f"{error.text} [SQLSTATE 42000] (Error {error.number}).  " if error else ""
        return f"Executed as user: sa. {shown}{_STEP_OUTCOMES[entry.status]}"
    kind = kind_of(database, job.job_type)
    own = own_job(database.engine, job.job_type)
    invoked = {
        RunSource.USER: "User sa",
        RunSource.BOOT: f"Start Sequence ({kind.schedule})",
        RunSource.SCHEDULER: f"Schedule ({kind.schedule})",
    }[entry.source]
    return f"{_OUTCOMES.get(entry.status, '')}  The Job was invoked by {invoked}." + (
        "" if own else f"  The last step to run was step 1 ({kind.step_name})."
    )


_SYSJOBHISTORY: Final = Columns(
    """instance_id int!, job_id uniqueidentifier!, step_id int!, step_name sysname!,
 sql_message_id int! = 0, sql_severity int! = 0, message nvarchar(4000), run_status int!,
 run_date int!, run_time int!, run_duration int!, operator_id_emailed int! = 0,
 operator_id_netsent int! = 0, operator_id_paged int! = 0, retries_attempted int! = 0,
 server sysname!"""
)


@view("msdb:dbo.sysjobhistory", _SYSJOBHISTORY)
def _sysjobhistory(context: SessionContext, _database: Database) -> Iterator[Row]:
    history = _history(context)
    entries = [
        (entry, database, job)
        for database, job in msdb_jobs(context)
        for entry in history.entries((database.database_id, job.job_type))
    ]
    for entry, database, job in sorted(entries, key=lambda each: each[0].instance_id):
        yield _history_row(entry, database, job)


def _step_name(database: Database, job: JobParameters, step_id: int) -> str:
    own = own_job(database.engine, job.job_type)
    if own is None:
        return kind_of(database, job.job_type).step_name
    return own.steps[step_id - 1].name if 1 <= step_id <= len(own.steps) else ""


def _history_row(entry: HistoryEntry, database: Database, job: JobParameters) -> Row:
    error = entry.error
    date, time = date_and_time(entry.started_ticks)
    return _SYSJOBHISTORY.row(
        instance_id=entry.instance_id,
        job_id=pack_guid(job.job_id),
        step_id=entry.step_id,
        step_name=_step_name(database, job, entry.step_id) if entry.step_id else "(Job outcome)",
        sql_message_id=error.number if error else 0,
        sql_severity=error.severity if error else 0,
        message=_message(entry, database, job)[:4000],
        run_status=int(entry.status),
        run_date=date,
        run_time=time,
        run_duration=duration(entry.duration_s),
        server=SERVER_NAME,
    )


_SYSJOBSERVERS: Final = Columns(
    """job_id uniqueidentifier!, server_id int! = 0, last_run_outcome tinyint!,
 last_outcome_message nvarchar(4000), last_run_date int! = 0, last_run_time int! = 0,
 last_run_duration int! = 0"""
)


@view("msdb:dbo.sysjobservers", _SYSJOBSERVERS)
def _sysjobservers(context: SessionContext, _database: Database) -> Iterator[Row]:
    history = _history(context)
    for database, job in msdb_jobs(context):
        job_id = pack_guid(job.job_id)
        ended = [e for e in history.entries((database.database_id, job.job_type)) if not e.step_id]
        if not ended:
            yield _SYSJOBSERVERS.row(job_id=job_id, last_run_outcome=UNKNOWN)
            continue
        last = ended[-1]
        date, time = date_and_time(last.started_ticks)
        yield _SYSJOBSERVERS.row(
            job_id=job_id,
            last_run_outcome=int(last.status),
            last_outcome_message=_message(last, database, job),
            last_run_date=date,
            last_run_time=time,
            last_run_duration=duration(last.duration_s),
        )


_SYSJOBSTEPS: Final = Columns(
    """job_id uniqueidentifier!, step_id int! = 1, step_name sysname!, subsystem nvarchar(40)!,
 command nvarchar(max), flags int! = 0, additional_parameters nvarchar(max),
 cmdexec_success_code int! = 0, on_success_action tinyint!, on_success_step_id int! = 0,
 on_fail_action tinyint!, on_fail_step_id int! = 0, server sysname, database_name sysname,
 database_user_name sysname, retry_attempts int!, retry_interval int!, os_run_priority int! = 0,
 output_file_name nvarchar(200), last_run_outcome int!, last_run_duration int! = 0,
 last_run_retries int! = 0, last_run_date int!, last_run_time int!, proxy_id int,
 step_uid uniqueidentifier"""
)


@view("msdb:dbo.sysjobsteps", _SYSJOBSTEPS)
def _sysjobsteps(context: SessionContext, _database: Database) -> Iterator[Row]:
    history = _history(context)
    for database, job in msdb_jobs(context):
        own = own_job(context.engine, job.job_type)
        if own is not None:
            yield from _own_steps(history, database, own)
            continue
        kind = kind_of(database, job.job_type)
        steps = [e for e in history.entries((database.database_id, job.job_type)) if e.step_id]
        last = steps[-1] if steps else None
        date, time = date_and_time(last.started_ticks) if last else (0, 0)
        yield _SYSJOBSTEPS.row(
            job_id=pack_guid(job.job_id),
            step_name=kind.step_name,
            subsystem=kind.subsystem,
            command=kind.command,
            on_success_action=_QUIT_WITH_SUCCESS,
            on_fail_action=_QUIT_WITH_FAILURE,
            server=SERVER_NAME,
            database_name=database.name,
            retry_attempts=_RETRIES,
            retry_interval=_RETRY_MINUTES,
            last_run_outcome=int(last.status) if last else UNKNOWN,
            last_run_duration=duration(last.duration_s) if last else 0,
            last_run_date=date,
            last_run_time=time,
            step_uid=pack_guid(uuid.uuid5(job.job_id, "step")),
        )


def _own_steps(history: JobHistory, database: Database, job: OwnJob) -> Iterator[Row]:
    entries = history.entries((database.database_id, job.job_type))
    for number, step in enumerate(job.steps, 1):
        last = next((e for e in reversed(entries) if e.step_id == number), None)
        date, time = date_and_time(last.started_ticks) if last else (0, 0)
        yield _SYSJOBSTEPS.row(
            job_id=pack_guid(job.guid),
            step_id=number,
            step_name=step.name,
            subsystem="TSQL",
            command=step.command,
            on_success_action=step.on_success,
            on_fail_action=step.on_fail,
            server=SERVER_NAME,
            database_name=step.database,
            retry_attempts=0,
            retry_interval=0,
            last_run_outcome=int(last.status) if last else UNKNOWN,
            last_run_duration=duration(last.duration_s) if last else 0,
            last_run_date=date,
            last_run_time=time,
            step_uid=pack_guid(uuid.uuid5(job.guid, f"step {number}")),
        )


_SYSJOBACTIVITY: Final = Columns(
    """session_id int! = 1, job_id uniqueidentifier!, run_requested_date datetime,
 run_requested_source sysname, queued_date datetime, start_execution_date datetime,
 last_executed_step_id int, last_executed_step_date datetime, stop_execution_date datetime,
 job_history_id int, next_scheduled_run_date datetime"""
)


@view("msdb:dbo.sysjobactivity", _SYSJOBACTIVITY)
def _sysjobactivity(context: SessionContext, _database: Database) -> Iterator[Row]:
    history = _history(context)
    for database, job in msdb_jobs(context):
        activity = history.activity((database.database_id, job.job_type))
        job_id = pack_guid(job.job_id)
        if activity is None:
            yield _SYSJOBACTIVITY.row(job_id=job_id)
            continue
        started = datetime_of(activity.started_ticks)
        ended = None if activity.ended_ticks is None else datetime_of(activity.ended_ticks)
        step = activity.last_step or None
        yield _SYSJOBACTIVITY.row(
            job_id=job_id,
            run_requested_date=started,
            run_requested_source=str(int(activity.source)),
            start_execution_date=started,
            last_executed_step_id=step,
            last_executed_step_date=started if step else None,
            stop_execution_date=ended,
            job_history_id=activity.history_id,
        )
