"""Who reads a database's log: the capture job, or replication's Log Reader Agent.

Both feed the change tables in the same way; what changes is whose job it is (replication.py).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Final

from tailrace_emulator import messages
from tailrace_emulator.cdc import jobs, replication
from tailrace_emulator.cdc.capture_instance import capture_instances, is_enabled
from tailrace_emulator.cdc.job_runs import begin_run, end_run
from tailrace_emulator.cdc.jobs import JobParameters
from tailrace_emulator.cdc.own_jobs import is_own, own_job, own_jobs
from tailrace_emulator.cdc.runtime import runtime
from tailrace_emulator.messages.errors import SqlError

if TYPE_CHECKING:
    import apsw

    from tailrace_emulator.storage.engine import Database, Engine

READ_BATCH_SIZE: Final = 500
"""Transactions that the Log Reader Agent takes at once: its documented default."""
POLLING_INTERVAL_S: Final = 5


def log_reader(database: Database) -> JobParameters:
    """The Log Reader Agent's job, with the agent's documented defaults."""
    return JobParameters(
        database.database_id,
        replication.LOG_READER,
        replication.log_reader_id(database),
        maxtrans=READ_BATCH_SIZE,
        maxscans=jobs.CAPTURE_DEFAULTS.maxscans or 0,
        continuous=True,
        pollinginterval=POLLING_INTERVAL_S,
    )


def refuse_beside_log_reader(database: Database, procedure: str) -> None:
    """Raises 22911 where the Log Reader Agent reads the log: no capture job may."""
    if replication.has_log_reader(database):
        raise messages.error(22911, procedure=procedure)


def change_publications(
    engine: Engine, database: Database, change: Callable[[apsw.Connection], None]
) -> list[str]:
    """Changes the publications of a database, and hands the log over if that calls for it.

    Args:
        change: makes the change, inside the write transaction that it is given.

    Returns:
        What the started job says, if one was started.

    Raises:
        SqlError: any error that ``change`` raises.
    """
    with engine.write() as connection:
        before = replication.has_log_reader(database)
        change(connection)
        after = replication.has_log_reader(database)
        if before == after:
            return []
        tracked = is_enabled(database) and bool(capture_instances(connection, database))
        if after:
            if any(j.job_type == jobs.CAPTURE for j in jobs.jobs_of(connection, engine, database)):
                jobs.drop_job(connection, engine, database, jobs.CAPTURE)
        else:
            end_run(engine, database, replication.LOG_READER)
            if tracked:
                jobs.add_job(connection, engine, database, jobs.CAPTURE, jobs.JobOptions())
    if after:
        return start_log_reader(engine, database)
    return _start_capture(engine, database) if tracked else []


def start_log_reader(engine: Engine, database: Database) -> list[str]:
    """Starts the Log Reader Agent, if SQL Server Agent runs."""
    if not runtime(engine).agent_running:
        return []
    begin_run(engine, database, replication.LOG_READER)
    return [messages.text(jobs.JOB_STARTED, replication.log_reader_name(database))]


def _start_capture(engine: Engine, database: Database) -> list[str]:
    with engine.write() as connection:
        try:
            return [jobs.start_job(connection, engine, database, jobs.CAPTURE)]
        except SqlError as error:
            return [error.message]  # SQL Server Agent does not run: the job starts with it


def all_jobs(
    connection: apsw.Connection, engine: Engine
) -> Iterator[tuple[Database, JobParameters]]:
    """Every job with its database: those of CDC, the Log Reader Agents, those of one's own."""
    for job in jobs.jobs_of(connection, engine):
        database = engine.database_by_id(job.database_id)
        if database is not None:
            yield database, job
    for database in list(engine.databases.values()):
        if replication.has_log_reader(database):
            yield database, log_reader(database)
    msdb = engine.database("msdb")
    for own in own_jobs(engine):
        yield msdb, JobParameters(msdb.database_id, own.job_type, own.guid)


def job_name(database: Database, job_type: str) -> str:
    """The Agent's name of a job of any type."""
    if job_type == replication.LOG_READER:
        return replication.log_reader_name(database)
    if is_own(job_type):
        own = own_job(database.engine, job_type)
        return own.name if own else ""
    return jobs.job_name(database, job_type)
