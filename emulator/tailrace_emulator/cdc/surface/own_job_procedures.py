"""msdb.dbo.sp_add_job and its like: jobs of one's own, of T-SQL steps.

Parameters that would change what a job does and are not here are refused by name. Those that SQL
Server's own scripts give with their defaults are accepted.

https://learn.microsoft.com/sql/relational-databases/system-stored-procedures/sql-server-agent-stored-procedures-transact-sql
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Final

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
    OwnJob,
    Step,
    remove_job,
)
from tailrace_emulator.cdc.surface.declarations import procedure
from tailrace_emulator.cdc.surface.own_job_arguments import (
    WHICH_JOB,
    find_own_job,
    invalid_value,
    refuse_but_defaults,
    store_job,
)
from tailrace_emulator.cdc.surface.transactions import as_ddl
from tailrace_emulator.messages.errors import not_supported
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
)

if TYPE_CHECKING:
    from tailrace_emulator.catalog.context import SessionContext

_P = ProcedureParameter
_FIRST_STEP: Final = 1
_LAST_DAY: Final = 99_991_231
_LAST_SECOND: Final = 235_959
_TEXT: Final = nvarchar(512)


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
    refuse_but_defaults("sp_add_job", args, _JOB_DEFAULTS)
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
    store_job(context, made)
    yield ReturnValue("@job_id", UNIQUEIDENTIFIER, pack_guid(made.guid))


@procedure("sp_delete_job", *WHICH_JOB, in_msdb=True)
def _delete_job(context: SessionContext, args: Arguments) -> Iterator[Event]:
    job = find_own_job(context, args, "sp_delete_job")
    msdb = context.engine.database("msdb")

    def remove() -> None:
        with context.engine.write() as connection:
            remove_job(connection, msdb, job)
            forget_job(context.engine, msdb, job.job_type)

    as_ddl(context, remove)
    yield from ()


@procedure("sp_add_jobserver", *WHICH_JOB, _P("@server_name", SYSNAME, "(LOCAL)"), in_msdb=True)
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
    refuse_but_defaults(procedure_name, args, _STEP_DEFAULTS)
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
    *WHICH_JOB,
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
        raise invalid_value("@step_id", "sp_add_jobstep")
    steps = list(job.steps)
    steps.insert(number - 1, step)
    store_job(context, job, steps=tuple(steps))
    yield from ()


@procedure(
    "sp_update_jobstep",
    *WHICH_JOB,
    _P("@step_id", INT),
    _P("@step_name", SYSNAME, None),
    *_STEP,
    in_msdb=True,
)
def _update_jobstep(context: SessionContext, args: Arguments) -> Iterator[Event]:
    job = find_own_job(context, args, "sp_update_jobstep")
    number = integer(args["@step_id"]) or 0
    if not 1 <= number <= len(job.steps):
        raise invalid_value("@step_id", "sp_update_jobstep")
    steps = list(job.steps)
    steps[number - 1] = _step(args, steps[number - 1], "sp_update_jobstep")
    store_job(context, job, steps=tuple(steps))
    yield from ()
