"""msdb.dbo.sp_add_job and its like: jobs of one's own, of T-SQL steps and one schedule.

Parameters that would change what a job does and are not here are refused by name; those that SQL
Server's own scripts give with their defaults are taken.

https://learn.microsoft.com/sql/relational-databases/system-stored-procedures/sql-server-agent-stored-procedures-transact-sql
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from tailrace_emulator import messages
from tailrace_emulator.catalog.procedure_registry import (
    Arguments,
    ProcedureParameter,
    integer,
    text,
)
from tailrace_emulator.cdc.job_runs import forget_job
from tailrace_emulator.cdc.log_readers import all_jobs, job_name
from tailrace_emulator.cdc.own_jobs import (
    ACTIONS,
    AT_TIME,
    DAILY,
    FREQUENCIES,
    SUBDAY_TYPES,
    OwnJob,
    Schedule,
    Step,
    own_jobs,
    put_job,
    remove_job,
    today,
)
from tailrace_emulator.cdc.surface.declarations import procedure
from tailrace_emulator.cdc.surface.transactions import as_ddl
from tailrace_emulator.messages.errors import SqlError, not_supported
from tailrace_emulator.values.results import Event, ReturnValue
from tailrace_emulator.values.types import (
    INT,
    MAX,
    SYSNAME,
    TINYINT,
    UNIQUEIDENTIFIER,
    StorageValue,
    nvarchar,
    pack_guid,
    unpack_guid,
)

if TYPE_CHECKING:
    from tailrace_emulator.catalog.context import SessionContext

_P = ProcedureParameter
_FIRST_STEP: Final = 1
_LAST_DAY: Final = 99_991_231
_LAST_SECOND: Final = 235_959
_TEXT: Final = nvarchar(512)
_JOB: Final = (_P("@job_id", UNIQUEIDENTIFIER, None), _P("@job_name", SYSNAME, None))


def find_own_job(context: SessionContext, args: Arguments, procedure_name: str) -> OwnJob:
    """The job that @job_name or @job_id means.

    Raises:
        SqlError: 14262 or 14294; 50900 for a job that is not one's own.
    """
    name, raw = text(args["@job_name"]), args["@job_id"]
    if (name is None) == (raw is None):
        raise messages.error(14294, "@job_id", "@job_name", procedure="sp_verify_job_identifiers")
    wanted = str(unpack_guid(raw)) if isinstance(raw, bytes) else ""
    folded = (name or "").casefold()
    for job in own_jobs(context.engine):
        if job.job_id == wanted or job.name.casefold() == folded:
            return job
    for database, other in all_jobs(context.store.connection, context.engine):
        known = job_name(database, other.job_type)
        if str(other.job_id) == wanted or known.casefold() == folded:
            raise not_supported(
                f"{procedure_name} of the job {known} (sp_update_job @enabled = 0 disables it, and"
                " a job of one's own can take its place)"
            )
    raise messages.error(14262, name or wanted, procedure="sp_verify_job_identifiers")


def _refuse(procedure_name: str, args: Arguments, defaults: Mapping[str, StorageValue]) -> None:
    """Refuses parameters of which nothing but the default is there."""
    for name, default in defaults.items():
        if args[name] is not None and args[name] != default:
            raise not_supported(f"{name} = {args[name]!r} of {procedure_name}")


def _store(context: SessionContext, job: OwnJob, **changed: Any) -> None:
    """Stores a job with what has changed."""
    made = replace(job, **changed, modified=context.engine.clock.now_ticks())

    def store() -> None:
        with context.engine.write() as connection:
            put_job(connection, context.engine.database("msdb"), made)

    as_ddl(context, store)


def _invalid(name: str, procedure_name: str) -> SqlError:
    return messages.error(14266, name, procedure=procedure_name)


_JOB_DEFAULTS: Final[Mapping[str, StorageValue]] = {
    "@start_step_id": _FIRST_STEP,
    "@notify_level_email": 0,
    "@notify_level_netsend": 0,
    "@notify_level_page": 0,
    "@notify_email_operator_name": None,
    "@notify_netsend_operator_name": None,
    "@notify_page_operator_name": None,
    "@delete_level": 0,
}


@procedure(
    "sp_add_job",
    _P("@job_name", SYSNAME),
    _P("@enabled", TINYINT, 1),
    _P("@description", _TEXT, None),
    _P("@start_step_id", INT, _FIRST_STEP),
    _P("@category_name", SYSNAME, None),
    _P("@category_id", INT, None),
    _P("@owner_login_name", SYSNAME, None),
    _P("@notify_level_eventlog", INT, 2),
    _P("@notify_level_email", INT, 0),
    _P("@notify_level_netsend", INT, 0),
    _P("@notify_level_page", INT, 0),
    _P("@notify_email_operator_name", SYSNAME, None),
    _P("@notify_netsend_operator_name", SYSNAME, None),
    _P("@notify_page_operator_name", SYSNAME, None),
    _P("@delete_level", INT, 0),
    _P("@job_id", UNIQUEIDENTIFIER, None, output=True),
    in_msdb=True,
)
def _add_job(context: SessionContext, args: Arguments) -> Iterator[Event]:
    name = (text(args["@job_name"]) or "").strip()
    _refuse("sp_add_job", args, _JOB_DEFAULTS)
    taken = {
        job_name(database, job.job_type).casefold()
        for database, job in all_jobs(context.store.connection, context.engine)
    }
    if name.casefold() in taken:
        raise messages.error(14261, name, procedure="sp_add_job")
    now = context.engine.clock.now_ticks()
    made = OwnJob(
        str(uuid.uuid4()),
        name,
        enabled=args["@enabled"] != 0,
        description=text(args["@description"]) or "No description available.",
        created=now,
        modified=now,
    )
    _store(context, made)
    yield ReturnValue("@job_id", UNIQUEIDENTIFIER, pack_guid(made.guid))


@procedure("sp_delete_job", *_JOB, in_msdb=True)
def _delete_job(context: SessionContext, args: Arguments) -> Iterator[Event]:
    job = find_own_job(context, args, "sp_delete_job")
    msdb = context.engine.database("msdb")

    def remove() -> None:
        with context.engine.write() as connection:
            remove_job(connection, msdb, job)
            forget_job(context.engine, msdb, job.job_type)

    as_ddl(context, remove)
    yield from ()


@procedure("sp_add_jobserver", *_JOB, _P("@server_name", SYSNAME, "(LOCAL)"), in_msdb=True)
def _add_jobserver(context: SessionContext, args: Arguments) -> Iterator[Event]:
    """Jobs run on this server in any case."""
    find_own_job(context, args, "sp_add_jobserver")
    yield from ()


_STEP: Final = (
    _P("@subsystem", nvarchar(40), None),
    _P("@command", nvarchar(MAX), None),
    _P("@additional_parameters", nvarchar(MAX), None),
    _P("@cmdexec_success_code", INT, None),
    _P("@on_success_action", TINYINT, None),
    _P("@on_success_step_id", INT, None),
    _P("@on_fail_action", TINYINT, None),
    _P("@on_fail_step_id", INT, None),
    _P("@server", SYSNAME, None),
    _P("@database_name", SYSNAME, None),
    _P("@database_user_name", SYSNAME, None),
    _P("@retry_attempts", INT, None),
    _P("@retry_interval", INT, None),
    _P("@os_run_priority", INT, None),
    _P("@output_file_name", nvarchar(200), None),
    _P("@flags", INT, None),
)
_STEP_DEFAULTS: Final[Mapping[str, StorageValue]] = {
    "@subsystem": "TSQL",
    "@additional_parameters": None,
    "@on_success_step_id": 0,
    "@on_fail_step_id": 0,
    "@database_user_name": None,
    "@retry_attempts": 0,
    "@output_file_name": None,
    "@flags": 0,
}


def _step(args: Arguments, before: Step, procedure_name: str) -> Step:
    """A step with what the arguments say of it.

    Raises:
        SqlError: 50900 for what is not here.
    """
    _refuse(procedure_name, args, _STEP_DEFAULTS)
    for parameter in ("@on_success_action", "@on_fail_action"):
        if args[parameter] is not None and args[parameter] not in ACTIONS:
            raise not_supported(f"{parameter} = {args[parameter]!r} of {procedure_name}")
    name, command = text(args["@step_name"]), text(args["@command"])
    database = text(args["@database_name"])
    return Step(
        before.name if name is None else name,
        before.database if database is None else database,
        before.command if command is None else command,
        integer(args["@on_success_action"]) or before.on_success,
        integer(args["@on_fail_action"]) or before.on_fail,
    )


@procedure(
    "sp_add_jobstep",
    *_JOB,
    _P("@step_id", INT, None),
    _P("@step_name", SYSNAME),
    *_STEP,
    _P("@step_uid", UNIQUEIDENTIFIER, None, output=True),
    in_msdb=True,
)
def _add_jobstep(context: SessionContext, args: Arguments) -> Iterator[Event]:
    """Adds a step; without @step_id as the last one."""
    job = find_own_job(context, args, "sp_add_jobstep")
    step = _step(args, Step("", "master", ""), "sp_add_jobstep")
    if any(other.name.casefold() == step.name.casefold() for other in job.steps):
        raise messages.error(14261, step.name, procedure="sp_add_jobstep")
    number = integer(args["@step_id"]) or len(job.steps) + 1
    if not 1 <= number <= len(job.steps) + 1:
        raise _invalid("@step_id", "sp_add_jobstep")
    steps = list(job.steps)
    steps.insert(number - 1, step)
    _store(context, job, steps=tuple(steps))
    yield from ()


@procedure(
    "sp_update_jobstep",
    *_JOB,
    _P("@step_id", INT),
    _P("@step_name", SYSNAME, None),
    *_STEP,
    in_msdb=True,
)
def _update_jobstep(context: SessionContext, args: Arguments) -> Iterator[Event]:
    job = find_own_job(context, args, "sp_update_jobstep")
    number = integer(args["@step_id"]) or 0
    if not 1 <= number <= len(job.steps):
        raise _invalid("@step_id", "sp_update_jobstep")
    steps = list(job.steps)
    steps[number - 1] = _step(args, steps[number - 1], "sp_update_jobstep")
    _store(context, job, steps=tuple(steps))
    yield from ()


_TIMES: Final = (
    _P("@enabled", TINYINT, None),
    _P("@freq_type", INT, None),
    _P("@freq_interval", INT, None),
    _P("@freq_subday_type", INT, None),
    _P("@freq_subday_interval", INT, None),
    _P("@freq_relative_interval", INT, None),
    _P("@freq_recurrence_factor", INT, None),
    _P("@active_start_date", INT, None),
    _P("@active_end_date", INT, None),
    _P("@active_start_time", INT, None),
    _P("@active_end_time", INT, None),
)


def _schedule(args: Arguments, before: Schedule, name: str, procedure_name: str) -> Schedule:
    """A schedule with what the arguments say of it.

    Raises:
        SqlError: 50900 for weekly, monthly and idle schedules; 14266 for values that are none.
    """
    _refuse(procedure_name, args, {"@freq_relative_interval": 0})

    def given(parameter: str, old: int) -> int:
        value = integer(args[parameter])
        return old if value is None else value

    made = Schedule(
        name,
        bool(given("@enabled", int(before.enabled))),
        given("@freq_type", before.freq_type),
        given("@freq_interval", before.freq_interval),
        # 0 is what a schedule that runs once is scripted with.
        given("@freq_subday_type", before.subday_type) or AT_TIME,
        given("@freq_subday_interval", before.subday_interval),
        given("@active_start_date", before.start_date),
        given("@active_end_date", before.end_date),
        given("@active_start_time", before.start_time),
        given("@active_end_time", before.end_time),
    )
    if made.freq_type not in FREQUENCIES:
        raise not_supported(f"@freq_type = {made.freq_type} of {procedure_name}")
    if made.subday_type not in SUBDAY_TYPES:
        raise _invalid("@freq_subday_type", procedure_name)
    if made.freq_type == DAILY and made.freq_interval < 1:
        raise _invalid("@freq_interval", procedure_name)
    if made.subday_type != AT_TIME and made.subday_interval < 1:
        raise _invalid("@freq_subday_interval", procedure_name)
    try:
        made.next_due(0)
    except ValueError as error:
        raise _invalid("@active_start_date", procedure_name) from error
    return made


@procedure(
    "sp_add_jobschedule",
    *_JOB,
    _P("@name", SYSNAME),
    *_TIMES,
    _P("@schedule_id", INT, None, output=True),
    _P("@automatic_post", INT, 1),
    _P("@schedule_uid", UNIQUEIDENTIFIER, None, output=True),
    in_msdb=True,
)
def _add_jobschedule(context: SessionContext, args: Arguments) -> Iterator[Event]:
    job = find_own_job(context, args, "sp_add_jobschedule")
    if job.schedule is not None:
        raise not_supported("several schedules of a job")
    now = today(context.engine.clock.now_ticks())
    empty = Schedule("", True, 1, 0, AT_TIME, 0, now, _LAST_DAY, 0, _LAST_SECOND)
    name = text(args["@name"]) or ""
    _store(context, job, schedule=_schedule(args, empty, name, "sp_add_jobschedule"))
    yield from ()


@procedure(
    "sp_update_schedule",
    _P("@schedule_id", INT, None),
    _P("@name", SYSNAME, None),
    _P("@new_name", SYSNAME, None),
    *_TIMES,
    _P("@owner_login_name", SYSNAME, None),
    _P("@automatic_post", INT, 1),
    in_msdb=True,
)
def _update_schedule(context: SessionContext, args: Arguments) -> Iterator[Event]:
    """Changes a schedule, by its name."""
    name = text(args["@name"])
    if name is None:
        raise not_supported("sp_update_schedule by @schedule_id (give @name)")
    folded = name.casefold()
    found = [
        (job, job.schedule)
        for job in own_jobs(context.engine)
        if job.schedule is not None and job.schedule.name.casefold() == folded
    ]
    if folded in _SHIPPED:
        raise not_supported("sp_update_schedule of the jobs of change data capture")
    if len(found) != 1:
        raise messages.error(14371 if found else 14262, name, procedure="sp_update_schedule")
    ((job, schedule),) = found
    new_name = text(args["@new_name"]) or schedule.name
    _store(context, job, schedule=_schedule(args, schedule, new_name, "sp_update_schedule"))
    yield from ()


_SHIPPED: Final = frozenset({"cdc capture agent schedule.", "cdc cleanup agent schedule."})
