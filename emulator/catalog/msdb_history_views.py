"""msdb's tables of what the Agent's jobs did and do: steps, activity, history.

Columns, their order and types are the documented ones; the texts of the history are inferred.

https://learn.microsoft.com/sql/relational-databases/system-tables/dbo-sysjobhistory-transact-sql
https://learn.microsoft.com/sql/relational-databases/system-tables/dbo-sysjobactivity-transact-sql
"""

from __future__ import annotations

import datetime
import uuid
from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from emulator.catalog.msdb_views import JOB_KINDS, JobKind, msdb_jobs
from emulator.catalog.object_views import datetime_of
from emulator.catalog.registry import Columns, Row, view
from emulator.catalog.server_views import SERVER_NAME
from emulator.cdc.job_history import HistoryEntry, JobHistory, RunSource, RunStatus
from emulator.cdc.runtime import runtime
from emulator.clock import TICKS_PER_SECOND
from emulator.types import TICKS_PER_DAY, pack_guid

if TYPE_CHECKING:
    from emulator.catalog.context import SessionContext
    from emulator.cdc.jobs import JobParameters
    from emulator.storage.engine import Database

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


def _date_and_time(ticks: int) -> tuple[int, int]:
    """A moment as yyyymmdd and hhmmss."""
    date = datetime.date.fromordinal(ticks // TICKS_PER_DAY + 1)
    return (
        date.year * 10_000 + date.month * 100 + date.day,
        _duration(ticks % TICKS_PER_DAY // TICKS_PER_SECOND),
    )


def _duration(seconds: int) -> int:
    """Seconds as hhmmss; more than 24 hours have as many digits as they need."""
    return seconds // 3600 * 10_000 + seconds // 60 % 60 * 100 + seconds % 60


def _message(entry: HistoryEntry, kind: JobKind) -> str:
    if entry.step_id:
        error = entry.error
        shown = f"{error.text} [SQLSTATE 42000] (Error {error.number}).  " if error else ""
        return f"Executed as user: sa. {shown}{_STEP_OUTCOMES[entry.status]}"
    invoked = {
        RunSource.USER: "User sa",
        RunSource.BOOT: f"Start Sequence ({kind.schedule})",
        RunSource.SCHEDULER: f"Schedule ({kind.schedule})",
    }[entry.source]
    return (
        f"{_OUTCOMES.get(entry.status, '')}  The Job was invoked by {invoked}.  The last step to"
        f" run was step 1 ({kind.step_name})."
    )


@view(
    "msdb:dbo.sysjobhistory",
    """instance_id int!, job_id uniqueidentifier!, step_id int!, step_name sysname!,
 sql_message_id int!, sql_severity int!, message nvarchar(4000), run_status int!, run_date int!,
 run_time int!, run_duration int!, operator_id_emailed int!, operator_id_netsent int!,
 operator_id_paged int!, retries_attempted int!, server sysname!""",
)
def _sysjobhistory(context: SessionContext, _database: Database) -> Iterator[Row]:
    history = _history(context)
    rows = [
        _history_row(entry, job)
        for database, job in msdb_jobs(context)
        for entry in history.entries((database.database_id, job.job_type))
    ]
    yield from sorted(rows, key=lambda row: row[0] if isinstance(row[0], int) else 0)


def _history_row(entry: HistoryEntry, job: JobParameters) -> Row:
    kind = JOB_KINDS[job.job_type]
    error = entry.error
    return (
        *(entry.instance_id, pack_guid(job.job_id), entry.step_id),
        kind.step_name if entry.step_id else "(Job outcome)",
        *((error.number, error.severity) if error else (0, 0)),
        *(_message(entry, kind)[:4000], int(entry.status)),
        *_date_and_time(entry.started_ticks),
        *(_duration(entry.duration_s), 0, 0, 0, 0, SERVER_NAME),
    )


@view(
    "msdb:dbo.sysjobservers",
    """job_id uniqueidentifier!, server_id int!, last_run_outcome tinyint!,
 last_outcome_message nvarchar(4000), last_run_date int!, last_run_time int!,
 last_run_duration int!""",
)
def _sysjobservers(context: SessionContext, _database: Database) -> Iterator[Row]:
    history = _history(context)
    for database, job in msdb_jobs(context):
        ended = [e for e in history.entries((database.database_id, job.job_type)) if not e.step_id]
        if not ended:
            yield pack_guid(job.job_id), 0, UNKNOWN, None, 0, 0, 0
            continue
        last = ended[-1]
        yield (
            *(pack_guid(job.job_id), 0, int(last.status)),
            _message(last, JOB_KINDS[job.job_type]),
            *_date_and_time(last.started_ticks),
            _duration(last.duration_s),
        )


@view(
    "msdb:dbo.sysjobsteps",
    """job_id uniqueidentifier!, step_id int!, step_name sysname!, subsystem nvarchar(40)!,
 command nvarchar(max), flags int!, additional_parameters nvarchar(max), cmdexec_success_code int!,
 on_success_action tinyint!, on_success_step_id int!, on_fail_action tinyint!,
 on_fail_step_id int!, server sysname, database_name sysname, database_user_name sysname,
 retry_attempts int!, retry_interval int!, os_run_priority int!, output_file_name nvarchar(200),
 last_run_outcome int!, last_run_duration int!, last_run_retries int!, last_run_date int!,
 last_run_time int!, proxy_id int, step_uid uniqueidentifier""",
)
def _sysjobsteps(context: SessionContext, _database: Database) -> Iterator[Row]:
    history = _history(context)
    for database, job in msdb_jobs(context):
        kind = JOB_KINDS[job.job_type]
        steps = [e for e in history.entries((database.database_id, job.job_type)) if e.step_id]
        last = steps[-1] if steps else None
        yield (
            *(pack_guid(job.job_id), 1, kind.step_name, kind.subsystem, kind.command, 0, None, 0),
            *(_QUIT_WITH_SUCCESS, 0, _QUIT_WITH_FAILURE, 0, SERVER_NAME, database.name, None),
            *(_RETRIES, _RETRY_MINUTES, 0, None),
            *((int(last.status), _duration(last.duration_s), 0) if last else (UNKNOWN, 0, 0)),
            *(_date_and_time(last.started_ticks) if last else (0, 0)),
            *(None, pack_guid(uuid.uuid5(job.job_id, "step"))),
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
        step = 1 if ended is not None else None
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
