"""sys.sp_cdc_*_job(s): the capture and cleanup jobs.

https://learn.microsoft.com/sql/relational-databases/system-stored-procedures/sys-sp-cdc-add-job-transact-sql
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from tailrace_emulator import messages
from tailrace_emulator.catalog.procedure_registry import (
    Arguments,
    ProcedureParameter,
    flag,
    integer,
    result_set,
    text,
)
from tailrace_emulator.cdc import capture_scan, jobs, replication
from tailrace_emulator.cdc.capture_instance import require_enabled
from tailrace_emulator.cdc.job_runs import stop_run
from tailrace_emulator.cdc.log_readers import (
    all_jobs,
    job_name,
    refuse_beside_log_reader,
    start_log_reader,
)
from tailrace_emulator.cdc.own_jobs import is_own, own_job, put_job
from tailrace_emulator.cdc.surface.declarations import procedure
from tailrace_emulator.cdc.surface.transactions import as_ddl
from tailrace_emulator.messages.errors import not_supported
from tailrace_emulator.values.results import Event, Message
from tailrace_emulator.values.types import (
    BIGINT,
    BIT,
    INT,
    SYSNAME,
    TINYINT,
    UNIQUEIDENTIFIER,
    nvarchar,
    pack_guid,
)

if TYPE_CHECKING:
    from tailrace_emulator.catalog.context import SessionContext
    from tailrace_emulator.storage.engine import Database

_P = ProcedureParameter
_JOB_TYPE: Final = nvarchar(20)

_OPTIONS: Final = (
    _P("@maxtrans", INT, None),
    _P("@maxscans", INT, None),
    _P("@continuous", BIT, None),
    _P("@pollinginterval", BIGINT, None),
    _P("@retention", BIGINT, None),
    _P("@threshold", BIGINT, None),
)


def _options(args: Arguments) -> jobs.JobOptions:
    return jobs.JobOptions(
        maxtrans=integer(args["@maxtrans"]),
        maxscans=integer(args["@maxscans"]),
        continuous=flag(args["@continuous"]),
        pollinginterval=integer(args["@pollinginterval"]),
        retention=integer(args["@retention"]),
        threshold=integer(args["@threshold"]),
    )


@procedure(
    "sp_cdc_add_job",
    _P("@job_type", _JOB_TYPE),
    _P("@start_job", BIT, 1),
    *_OPTIONS,
    _P("@check_for_logreader", BIT, 0),
)
def _add_job(context: SessionContext, args: Arguments) -> Iterator[Event]:
    job_type = text(args["@job_type"])

    def add() -> None:
        with context.engine.write() as connection:
            jobs.add_job(connection, context.engine, context.database, job_type, _options(args))

    as_ddl(context, add)
    if args["@start_job"]:
        yield from _started(context, job_type)


@procedure("sp_cdc_change_job", _P("@job_type", _JOB_TYPE, jobs.CAPTURE), *_OPTIONS)
def _change_job(context: SessionContext, args: Arguments) -> Iterator[Event]:
    job_type = text(args["@job_type"])

    def change() -> None:
        with context.engine.write() as connection:
            jobs.change_job(connection, context.engine, context.database, job_type, _options(args))

    as_ddl(context, change)
    yield from ()


@procedure("sp_cdc_drop_job", _P("@job_type", _JOB_TYPE))
def _drop_job(context: SessionContext, args: Arguments) -> Iterator[Event]:
    job_type = text(args["@job_type"])

    def drop() -> None:
        with context.engine.write() as connection:
            jobs.drop_job(connection, context.engine, context.database, job_type)

    as_ddl(context, drop)
    yield from ()


@procedure("sp_cdc_start_job", _P("@job_type", _JOB_TYPE, jobs.CAPTURE))
def _start_job(context: SessionContext, args: Arguments) -> Iterator[Event]:
    yield from _started(context, text(args["@job_type"]))


def _started(context: SessionContext, job_type: str | None) -> Iterator[Event]:
    message = jobs.start_job(context.store.connection, context.engine, context.database, job_type)
    yield Message(jobs.JOB_STARTED, message)


@procedure("sp_cdc_stop_job", _P("@job_type", _JOB_TYPE, jobs.CAPTURE))
def _stop_job(context: SessionContext, args: Arguments) -> Iterator[Event]:
    message = jobs.stop_job(
        context.store.connection, context.engine, context.database, text(args["@job_type"])
    )
    yield Message(jobs.JOB_STOPPED, message)


@procedure("sp_cdc_help_jobs")
def _help_jobs(context: SessionContext, _args: Arguments) -> Iterator[Event]:
    database = context.database
    require_enabled(database, "sp_cdc_help_jobs")
    found = jobs.jobs_of(context.store.connection, context.engine, database)
    yield from result_set(
        """job_id uniqueidentifier, job_type nvarchar(20), job_name sysname, maxtrans int,
 maxscans int, continuous bit, pollinginterval bigint, retention bigint, threshold bigint""",
        (
            (
                pack_guid(job.job_id),
                job.job_type,
                jobs.job_name(database, job.job_type),
                job.maxtrans or 0,
                job.maxscans or 0,
                int(bool(job.continuous)),
                job.pollinginterval or 0,
                job.retention or 0,
                job.threshold or 0,
            )
            for job in found
        ),
    )


@procedure("sp_MScdc_capture_job")
def _capture_job(context: SessionContext, _args: Arguments) -> Iterator[Event]:
    """Runs the capture job's step in this session, until it ends or is cancelled."""
    database = context.database
    require_enabled(database, "sp_MScdc_capture_job")
    refuse_beside_log_reader(database, "sp_MScdc_capture_job")
    job = jobs.find_job(context.store.connection, context.engine, database, jobs.CAPTURE)
    while True:
        capture_scan.scan(
            context.engine,
            database,
            maxtrans=job.maxtrans or capture_scan.MAXTRANS_DEFAULT,
            maxscans=job.maxscans or capture_scan.MAXSCANS_DEFAULT,
            session_id=context.session_id,
            stopped=context.cancelled.is_set,
            session=context.store,
        )
        if not job.continuous or context.cancelled.wait(job.pollinginterval or 1):
            break
    yield from ()


def _job_of_name(context: SessionContext, name: str) -> tuple[Database, str]:
    for database, job in all_jobs(context.store.connection, context.engine):
        if job_name(database, job.job_type).casefold() == name.casefold():
            return database, job.job_type
    raise messages.error(14262, name, procedure="sp_verify_job_identifiers")


@procedure(
    "sp_start_job",
    _P("@job_name", SYSNAME),
    _P("@job_id", UNIQUEIDENTIFIER, None),
    _P("@error_flag", INT, 1),
    _P("@server_name", SYSNAME, None),
    _P("@step_name", SYSNAME, None),
    _P("@output_flag", INT, 1),
    in_msdb=True,
)
def _agent_start_job(context: SessionContext, args: Arguments) -> Iterator[Event]:
    """msdb.dbo.sp_start_job, by name."""
    database, job_type = _job_of_name(context, text(args["@job_name"]) or "")
    if is_own(job_type):
        yield Message(
            jobs.JOB_STARTED,
            jobs.request_start(context.engine, database, job_type, job_name(database, job_type)),
        )
        return
    if job_type == replication.LOG_READER:
        for message in start_log_reader(context.engine, database):
            yield Message(jobs.JOB_STARTED, message)
        return
    started = jobs.start_job(context.store.connection, context.engine, database, job_type)
    yield Message(jobs.JOB_STARTED, started)


@procedure(
    "sp_stop_job",
    _P("@job_name", SYSNAME),
    _P("@job_id", UNIQUEIDENTIFIER, None),
    _P("@originating_server", SYSNAME, None),
    _P("@server_name", SYSNAME, None),
    in_msdb=True,
)
def _agent_stop_job(context: SessionContext, args: Arguments) -> Iterator[Event]:
    """msdb.dbo.sp_stop_job, by name."""
    database, job_type = _job_of_name(context, text(args["@job_name"]) or "")
    if is_own(job_type):
        yield Message(
            jobs.JOB_STOPPED,
            jobs.request_stop(context.engine, database, job_type, job_name(database, job_type)),
        )
        return
    if job_type == replication.LOG_READER:
        stop_run(context.engine, database, job_type)
        return
    stopped = jobs.stop_job(context.store.connection, context.engine, database, job_type)
    yield Message(jobs.JOB_STOPPED, stopped)


@procedure(
    "sp_update_job",
    _P("@job_id", UNIQUEIDENTIFIER, None),
    _P("@job_name", SYSNAME, None),
    _P("@new_name", SYSNAME, None),
    _P("@enabled", TINYINT, None),
    in_msdb=True,
)
def _agent_update_job(context: SessionContext, args: Arguments) -> Iterator[Event]:
    """msdb.dbo.sp_update_job, as far as it enables and disables a job's schedule."""
    if args["@new_name"] is not None or args["@job_name"] is None:
        raise not_supported("sp_update_job of anything but @enabled, by @job_name")
    database, job_type = _job_of_name(context, text(args["@job_name"]) or "")
    enabled = args["@enabled"]
    own = own_job(context.engine, job_type) if is_own(job_type) else None
    if job_type == replication.LOG_READER:
        raise not_supported("sp_update_job of the Log Reader Agent's job")
    if enabled is not None:

        def change() -> None:
            with context.engine.write() as connection:
                if own is None:
                    jobs.enable_job(connection, database, job_type, enabled=bool(enabled))
                    return
                now = context.engine.clock.now_ticks()
                put_job(connection, database, replace(own, enabled=bool(enabled), modified=now))

        as_ddl(context, change)
    yield from ()


REFUSED_IN_MSDB: Final = frozenset(
    {
        "sp_add_category",
        "sp_add_schedule",
        "sp_attach_schedule",
        "sp_delete_jobschedule",
        "sp_delete_jobstep",
        "sp_help_jobactivity",
        "sp_help_jobhistory",
        "sp_help_jobschedule",
        "sp_help_jobserver",
        "sp_help_jobstep",
        "sp_purge_jobhistory",
        "sp_update_jobschedule",
    }
)
"""Procedures of the Agent that SQL Server has in msdb and this server refuses by name."""
