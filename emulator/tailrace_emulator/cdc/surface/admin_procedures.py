"""tailrace.*: procedures by which a test drives the server's clock, its Agent and the jobs.

SQL Server has none of them. They exist on a server that was started with ``--admin`` and are
refused by name on every other. They belong to the server, so each is found from any database, as
the system procedures are.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from tailrace_emulator.catalog.procedure_registry import (
    Arguments,
    ProcedureParameter,
    integer,
    result_set,
    text,
)
from tailrace_emulator.cdc import capture_scan, cleanup, jobs
from tailrace_emulator.cdc.log_readers import all_jobs, job_name
from tailrace_emulator.cdc.runtime import AgentControl, runtime
from tailrace_emulator.cdc.surface.declarations import procedure
from tailrace_emulator.messages.errors import SqlError, not_supported
from tailrace_emulator.values.results import Event
from tailrace_emulator.values.types import BIT, FLOAT, INT, SYSNAME, nvarchar

if TYPE_CHECKING:
    from tailrace_emulator.catalog.context import SessionContext
    from tailrace_emulator.storage.engine import Database

SCHEMA: Final = "tailrace"
_P = ProcedureParameter
_NOW: Final = "now datetime2(7)!"


def _control(context: SessionContext, name: str) -> AgentControl:
    control = runtime(context.engine).control
    if control is None:
        raise not_supported(f"{SCHEMA}.{name} on a server that was started without --admin")
    return control


@procedure(
    "advance_clock",
    _P("@days", INT, 0),
    _P("@hours", INT, 0),
    _P("@minutes", INT, 0),
    _P("@seconds", FLOAT, 0.0),
    schema=SCHEMA,
)
def _advance_clock(context: SessionContext, args: Arguments) -> Iterator[Event]:
    """Moves the server's clock forward; the result set is its new time (UTC)."""
    control = _control(context, "advance_clock")
    days, hours, minutes = (integer(args[name]) or 0 for name in ("@days", "@hours", "@minutes"))
    given = args["@seconds"]
    seconds = float(given) if isinstance(given, int | float) else 0.0
    forward = ((days * 24 + hours) * 60 + minutes) * 60 + seconds
    if forward < 0:
        raise SqlError(
            NOT_FORWARD, "tailrace.advance_clock moves the clock forward only.", procedure=SCHEMA
        )
    yield from result_set(_NOW, [(control.advance_clock(forward),)])


NOT_FORWARD: Final = 50_901
UNKNOWN_JOB: Final = 50_902


@procedure("run_job", _P("@job_name", SYSNAME), schema=SCHEMA)
def _run_job(context: SessionContext, args: Arguments) -> Iterator[Event]:
    """Runs a job's step once, here and now: a scan until the log is drained, or one cleanup."""
    _control(context, "run_job")
    name = (text(args["@job_name"]) or "").strip()
    database, job = _find_job(context, name)
    if job.job_type == jobs.CLEANUP:
        cleanup.run_cleanup_job(context.engine, database, context.store)
    else:
        maxtrans = job.maxtrans or capture_scan.MAXTRANS_DEFAULT
        while True:
            sessions = capture_scan.scan(
                context.engine,
                database,
                maxtrans=maxtrans,
                maxscans=job.maxscans or capture_scan.MAXSCANS_DEFAULT,
                session_id=context.session_id,
                stopped=context.cancelled.is_set,
                session=context.store,
            )
            if not sessions or sessions[-1].tran_count < maxtrans:
                break
    yield from ()


def _find_job(context: SessionContext, name: str) -> tuple[Database, jobs.JobParameters]:
    for database, job in all_jobs(context.store.connection, context.engine):
        if job_name(database, job.job_type).casefold() == name.casefold():
            return database, job
    raise SqlError(
        UNKNOWN_JOB, f"tailrace.run_job: there is no job of the name '{name}'.", procedure=SCHEMA
    )


@procedure("run_due_jobs", schema=SCHEMA)
def _run_due_jobs(context: SessionContext, _args: Arguments) -> Iterator[Event]:
    """Runs every job that is due by the clock; the result set is how many ran."""
    ran = _control(context, "run_due_jobs").run_due()
    yield from result_set("jobs_run int!", [(ran,)])


@procedure("set_agent", _P("@running", BIT), schema=SCHEMA)
def _set_agent(context: SessionContext, args: Arguments) -> Iterator[Event]:
    """Stops SQL Server Agent, or starts it again."""
    _control(context, "set_agent").set_running(bool(args["@running"]))
    yield from ()


@procedure("set_service_account", _P("@account", nvarchar(256)), schema=SCHEMA)
def _set_service_account(context: SessionContext, args: Arguments) -> Iterator[Event]:
    """Says under which account the services seem to run; NETWORK SERVICE cannot add jobs."""
    _control(context, "set_service_account")
    runtime(context.engine).service_account = (text(args["@account"]) or "").strip()
    yield from ()
