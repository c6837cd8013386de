"""msdb.dbo.sp_help_job: the jobs, of change data capture and of one's own, and what they do.

https://learn.microsoft.com/sql/relational-databases/system-stored-procedures/sp-help-job-transact-sql
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from tailrace_emulator import messages
from tailrace_emulator.catalog.object_views import datetime_of
from tailrace_emulator.catalog.procedure_registry import (
    Arguments,
    ProcedureParameter,
    integer,
    result_set,
    text,
)
from tailrace_emulator.catalog.server_views import SERVER_NAME
from tailrace_emulator.cdc import jobs
from tailrace_emulator.cdc.job_runs import is_running
from tailrace_emulator.cdc.log_readers import job_name
from tailrace_emulator.cdc.own_jobs import own_job
from tailrace_emulator.cdc.runtime import runtime
from tailrace_emulator.cdc.surface.declarations import procedure
from tailrace_emulator.cdc.surface.msdb_history_views import UNKNOWN
from tailrace_emulator.cdc.surface.msdb_views import CATEGORIES, date_and_time, kind_of, msdb_jobs
from tailrace_emulator.messages.errors import not_supported
from tailrace_emulator.values.types import (
    BIT,
    DATETIME,
    INT,
    SYSNAME,
    TINYINT,
    UNIQUEIDENTIFIER,
    SqlType,
    pack_guid,
)

if TYPE_CHECKING:
    from tailrace_emulator.catalog.context import SessionContext
    from tailrace_emulator.catalog.registry import Row
    from tailrace_emulator.cdc.jobs import JobParameters
    from tailrace_emulator.storage.engine import Database
    from tailrace_emulator.values.results import Event

_P = ProcedureParameter
EXECUTING: Final = 1
IDLE: Final = 4
NOT_IDLE: Final = 0
"""As @execution_status: all but idle jobs."""

_COLUMNS: Final = """job_id uniqueidentifier!, originating_server nvarchar(30), name sysname!,
 enabled tinyint, description nvarchar(512), start_step_id int, category sysname, owner sysname,
 notify_level_eventlog int, notify_level_email int, notify_level_netsend int,
 notify_level_page int, notify_email_operator sysname, notify_netsend_operator sysname,
 notify_page_operator sysname, delete_level int, date_created datetime, date_modified datetime,
 version_number int, last_run_date int!, last_run_time int!, last_run_outcome int!,
 next_run_date int!, next_run_time int!, next_run_schedule_id int!,
 current_execution_status int!, current_execution_step sysname, current_retry_attempt int,
 has_step int, has_schedule int, has_target int, type int!"""
_NOBODY: Final = "(unknown)"
_REFUSED: Final = (
    *("@job_type", "@owner_login_name", "@subsystem", "@category_name", "@date_comparator"),
    *("@date_created", "@date_last_modified", "@description"),
)


@procedure(
    "sp_help_job",
    _P("@job_id", UNIQUEIDENTIFIER, None),
    _P("@job_name", SYSNAME, None),
    _P("@job_aspect", SYSNAME, None),
    _P("@job_type", SYSNAME, None),
    _P("@owner_login_name", SYSNAME, None),
    _P("@subsystem", SYSNAME, None),
    _P("@category_name", SYSNAME, None),
    _P("@enabled", TINYINT, None),
    _P("@execution_status", INT, None),
    _P("@date_comparator", SqlType("char", length=1), None),
    _P("@date_created", DATETIME, None),
    _P("@date_last_modified", DATETIME, None),
    _P("@description", SYSNAME, None),
    _P("@output_flag", BIT, 1),
    in_msdb=True,
)
def _help_job(context: SessionContext, args: Arguments) -> Iterator[Event]:
    """All jobs; with a name or id, and @job_aspect = JOB, that one."""
    for name in _REFUSED:
        if args[name] is not None:
            raise not_supported(f"{name} of sp_help_job")
    wanted, job_id = text(args["@job_name"]), args["@job_id"]
    is_one = wanted is not None or job_id is not None
    aspect = (text(args["@job_aspect"]) or "ALL").upper()
    if is_one and aspect != "JOB":
        raise not_supported(f"@job_aspect = {aspect} of sp_help_job (JOB is there)")
    chosen = [
        (database, job)
        for database, job in msdb_jobs(context)
        if job_id is None or pack_guid(job.job_id) == job_id
        if wanted is None or job_name(database, job.job_type).casefold() == wanted.casefold()
    ]
    if is_one and not chosen:
        raise messages.error(14262, wanted or "", procedure="sp_verify_job_identifiers")
    enabled, status = args["@enabled"], integer(args["@execution_status"])
    yield from result_set(
        _COLUMNS,
        [
            _row(context, database, job)
            for database, job in chosen
            if enabled is None or _is_enabled(context, database, job) == bool(enabled)
            if status is None or _has_status(context, database, job, status)
        ],
    )


def _is_enabled(context: SessionContext, database: Database, job: JobParameters) -> bool:
    own = own_job(context.engine, job.job_type)
    return own.enabled if own else jobs.is_job_enabled(database, job.job_type)


def _has_status(
    context: SessionContext, database: Database, job: JobParameters, status: int
) -> bool:
    runs = is_running(context.engine, database, job.job_type)
    return runs if status in {EXECUTING, NOT_IDLE} else status == IDLE and not runs


def _row(context: SessionContext, database: Database, job: JobParameters) -> Row:
    kind = kind_of(database, job.job_type)
    own = own_job(context.engine, job.job_type)
    key = (database.database_id, job.job_type)
    ended = [e for e in runtime(context.engine).job_history.entries(key) if not e.step_id]
    last = ended[-1] if ended else None
    due = own.schedule.next_due(context.engine.clock.now_ticks()) if own and own.schedule else None
    runs = is_running(context.engine, database, job.job_type)
    created = datetime_of(own.created if own else database.create_ticks)
    return (
        *(pack_guid(job.job_id), SERVER_NAME, job_name(database, job.job_type)),
        *(int(_is_enabled(context, database, job)), kind.description, 1),
        *(CATEGORIES[kind.category_id], "sa", 2, 0, 0, 0, _NOBODY, _NOBODY, _NOBODY, 0),
        *(created, datetime_of(own.modified) if own else created, 1),
        *(date_and_time(last.started_ticks) if last else (0, 0)),
        int(last.status) if last else UNKNOWN,
        *(*date_and_time(due or 0), int(due is not None)),
        EXECUTING if runs else IDLE,
        f"1 ({kind.step_name})" if runs else f"0 {_NOBODY}",
        *(0, len(own.steps) if own else 1, int(own is None or own.schedule is not None), 1, 1),
    )
