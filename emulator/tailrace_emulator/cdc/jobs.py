"""The capture and cleanup jobs: their parameters in msdb.dbo.cdc_jobs, starting and stopping.

Parameters are read when a job starts, so sp_cdc_change_job takes effect at the next start
(documented). Who runs started jobs is cdc/agent.py; here a start only puts the job into the
runtime and wakes the agent.

Defaults: the reference documentation says a maximum of 1000 transactions per scan cycle, with 5
seconds between cycles. Newer documentation says 500. Ours is the former; sp_cdc_scan itself keeps
its documented default of 500.
"""

from __future__ import annotations

import uuid
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from tailrace_emulator import messages
from tailrace_emulator.cdc import replication
from tailrace_emulator.cdc.capture_instance import require_enabled
from tailrace_emulator.cdc.job_runs import begin_run, forget_job, stop_run
from tailrace_emulator.cdc.metadata_tables import (
    CDC_JOBS,
    column_list,
    create_metadata_table,
    insert_rows,
    metadata_table,
    sqlite_column,
)
from tailrace_emulator.cdc.runtime import runtime
from tailrace_emulator.values.types import pack_guid, unpack_guid

if TYPE_CHECKING:
    import apsw

    from tailrace_emulator.storage.database import Database, StorageEngine

CAPTURE: Final = "capture"
CLEANUP: Final = "cleanup"
MAX_RETENTION_MINUTES: Final = 52_594_800
MAX_POLLING_INTERVAL_S: Final = 86_399
AGENT_ERROR: Final = 22022
JOB_STARTED: Final = 14243
JOB_STOPPED: Final = 14254
_NO_AGENT: Final = "SQLServerAgent is not currently running so it cannot be notified of this action"
NETWORK_SERVICE: Final = "networkservice"
NT_AUTHORITY: Final = "nt authority"
"""The account under which the Agent cannot add a job step: it names no server that it knows."""


@dataclass(frozen=True, slots=True)
class JobParameters:
    """A row of msdb.dbo.cdc_jobs; 0 where a parameter does not belong to the job's type.

    Attributes:
        pollinginterval: seconds between scan cycles.
        retention: minutes that change rows are kept.
        threshold: rows deleted by a single statement of the cleanup.
    """

    database_id: int
    job_type: str
    job_id: uuid.UUID
    maxtrans: int = 0
    maxscans: int = 0
    continuous: bool = False
    pollinginterval: int = 0
    retention: int = 0
    threshold: int = 0


@dataclass(frozen=True, slots=True)
class JobOptions:
    """What sp_cdc_add_job and sp_cdc_change_job are given; None where not specified."""

    maxtrans: int | None = None
    maxscans: int | None = None
    continuous: bool | None = None
    pollinginterval: int | None = None
    retention: int | None = None
    threshold: int | None = None


CAPTURE_DEFAULTS: Final = JobOptions(maxtrans=1000, maxscans=10, continuous=True, pollinginterval=5)
CLEANUP_DEFAULTS: Final = JobOptions(retention=4320, threshold=5000)


def job_name(database: Database, job_type: str) -> str:
    """The Agent's name of a job, as in its messages: of the database as it was called then."""
    named = database.options.get(_named(job_type))
    return str(named) if named else f"cdc.{database.name}_{job_type}"


def name_job(
    connection: apsw.Connection, database: Database, job_type: str, name: str | None
) -> None:
    """Keeps a job's name, or (None) lets the next one be named after the database."""
    if database.options.get(_named(job_type)) != name:
        database.set_option(_named(job_type), name, connection)


def _named(job_type: str) -> str:
    return f"cdc_{job_type}_job_name"


def jobs_of(
    connection: apsw.Connection, engine: StorageEngine, database: Database | None = None
) -> list[JobParameters]:
    """The jobs of one database, or of all."""
    msdb = engine.database("msdb")
    table = msdb.table("dbo", CDC_JOBS.name)
    if table is None:
        return []
    rows = connection.execute(
        f'SELECT {column_list(table)} FROM "{table.sqlite_name}"'
        f" ORDER BY {sqlite_column(table, 'database_id')}, {sqlite_column(table, 'job_type')}"
    )
    return [
        JobParameters(
            row[0],
            row[1],
            unpack_guid(row[2]),
            row[3],
            row[4],
            bool(row[5]),
            row[6],
            row[7],
            row[8],
        )
        for row in rows
        if database is None or row[0] == database.database_id
    ]


def find_job(
    connection: apsw.Connection, engine: StorageEngine, database: Database, job_type: str
) -> JobParameters:
    """A job of a database.

    Raises:
        SqlError: 22992 for an unknown type, 22997 when the database has no such job.
    """
    wanted = check_job_type(job_type)
    for job in jobs_of(connection, engine, database):
        if job.job_type == wanted:
            return job
    raise messages.error(22997, wanted)


def check_job_type(job_type: str | None) -> str:
    """The canonical job type.

    Raises:
        SqlError: 22992 for anything but 'capture' and 'cleanup'.
    """
    folded = (job_type or "").strip().casefold()
    if folded not in {CAPTURE, CLEANUP}:
        raise messages.error(22992, job_type if job_type is not None else "NULL")
    return folded


def add_job(
    connection: apsw.Connection,
    engine: StorageEngine,
    database: Database,
    job_type: str | None,
    options: JobOptions,
) -> JobParameters:
    """sp_cdc_add_job without its start: writes the job's parameters.

    Raises:
        SqlError: 22901 when the database is not enabled; 22992, 22994-22999 for bad values;
            22911 for a capture job next to a transactional publication; 14261 when the job exists;
            22836 under the account NETWORK SERVICE.
    """
    require_enabled(database, "sp_cdc_add_job")
    wanted = check_job_type(job_type)
    _check_options(wanted, options)
    if wanted == CAPTURE and replication.has_log_reader(database):
        raise messages.error(22911, procedure="sp_cdc_add_job")
    if any(job.job_type == wanted for job in jobs_of(connection, engine, database)):
        raise messages.error(14261, job_name(database, wanted), procedure="sp_verify_job")
    if _is_network_service(runtime(engine).service_account):
        raise messages.error(
            22836,
            *(database.name, "sp_add_jobstep_internal"),
            *(14234, "The specified '@server' is invalid (valid values are returned by"
              " sp_helpserver)."),
            procedure="sp_cdc_add_job_internal",
        )  # fmt: skip
    defaults = CAPTURE_DEFAULTS if wanted == CAPTURE else CLEANUP_DEFAULTS
    job = _with_options(JobParameters(database.database_id, wanted, uuid.uuid4()), defaults)
    job = _with_options(job, options)
    msdb = engine.database("msdb")
    if msdb.table("dbo", CDC_JOBS.name) is None:
        create_metadata_table(connection, msdb, CDC_JOBS, "dbo")
    insert_rows(connection, metadata_table(msdb, CDC_JOBS, "dbo"), [_row(job)])
    return job


def _is_network_service(account: str) -> bool:
    """Whether an account is NETWORK SERVICE, by its short name or with its authority."""
    authority, _, name = account.strip().casefold().rpartition("\\")
    return name.replace(" ", "") == NETWORK_SERVICE and authority in {"", NT_AUTHORITY}


def change_job(
    connection: apsw.Connection,
    engine: StorageEngine,
    database: Database,
    job_type: str | None,
    options: JobOptions,
) -> None:
    """sp_cdc_change_job: changes the stored parameters; a running job keeps the old ones.

    Raises:
        SqlError: as :func:`add_job`; 22997 when there is no such job.
    """
    require_enabled(database, "sp_cdc_change_job")
    job = find_job(connection, engine, database, job_type or CAPTURE)
    _check_options(job.job_type, options)
    table = metadata_table(engine.database("msdb"), CDC_JOBS, "dbo")
    changed = _with_options(job, options)
    _delete(connection, engine, changed)
    insert_rows(connection, table, [_row(changed)])


def drop_job(
    connection: apsw.Connection, engine: StorageEngine, database: Database, job_type: str | None
) -> None:
    """sp_cdc_drop_job: removes the job; its run ends when that is committed.

    Raises:
        SqlError: 22992 for an unknown type, 22997 when there is no such job.
    """
    job = find_job(connection, engine, database, job_type or "")
    _drop(connection, engine, database, job)


def drop_jobs(connection: apsw.Connection, engine: StorageEngine, database: Database) -> None:
    """Removes whatever jobs a database has."""
    for job in jobs_of(connection, engine, database):
        _drop(connection, engine, database, job)


def _drop(
    connection: apsw.Connection, engine: StorageEngine, database: Database, job: JobParameters
) -> None:
    forget_job(engine, database, job.job_type)
    if not is_job_enabled(database, job.job_type):
        enable_job(connection, database, job.job_type, enabled=True)
    name_job(connection, database, job.job_type, None)
    _delete(connection, engine, job)


def start_job(
    connection: apsw.Connection, engine: StorageEngine, database: Database, job_type: str | None
) -> str:
    """sp_cdc_start_job; within a transaction that changed jobs the run begins with its commit.

    Returns:
        The informational message.

    Raises:
        SqlError: 22997 without such a job; 22022 when it runs already or the Agent is stopped.
    """
    job = find_job(connection, engine, database, CAPTURE if job_type is None else job_type)
    return request_start(engine, database, job.job_type, job_name(database, job.job_type))


def request_start(engine: StorageEngine, database: Database, job_type: str, name: str) -> str:
    """Requests that the Agent run a job, whatever its type; as :func:`start_job`."""
    if not runtime(engine).agent_running:
        raise messages.error(AGENT_ERROR, _NO_AGENT)
    if not begin_run(engine, database, job_type):
        raise messages.error(
            AGENT_ERROR,
            f"Request to run job {name} (from User sa) refused because"
            " the job is already running from a request by User sa",
        )
    return messages.text(JOB_STARTED, name)


def stop_job(
    connection: apsw.Connection, engine: StorageEngine, database: Database, job_type: str | None
) -> str:
    """sp_cdc_stop_job: the run ends at once; a scan cycle under way is undone and loses nothing.

    Returns:
        The informational message.

    Raises:
        SqlError: 22997 without such a job; 22022 when it does not run or the Agent is stopped.
    """
    job = find_job(connection, engine, database, CAPTURE if job_type is None else job_type)
    return request_stop(engine, database, job.job_type, job_name(database, job.job_type))


def request_stop(engine: StorageEngine, database: Database, job_type: str, name: str) -> str:
    """Requests that the Agent end a job's run, whatever its type; as :func:`stop_job`."""
    if not runtime(engine).agent_running:
        raise messages.error(AGENT_ERROR, _NO_AGENT)
    if not stop_run(engine, database, job_type):
        raise messages.error(
            AGENT_ERROR,
            f"Request to stop job {name} (from User sa) refused because the"
            " job is not currently running",
        )
    return messages.text(JOB_STOPPED, name)


def _row(job: JobParameters) -> tuple[int | str | bytes | None, ...]:
    return (
        job.database_id,
        job.job_type,
        pack_guid(job.job_id),
        job.maxtrans or 0,
        job.maxscans or 0,
        int(bool(job.continuous)),
        job.pollinginterval or 0,
        job.retention or 0,
        job.threshold or 0,
    )


def _delete(connection: apsw.Connection, engine: StorageEngine, job: JobParameters) -> None:
    table = metadata_table(engine.database("msdb"), CDC_JOBS, "dbo")
    connection.execute(
        f'DELETE FROM "{table.sqlite_name}" WHERE {sqlite_column(table, "database_id")} = ?'
        f" AND {sqlite_column(table, 'job_type')} = ?",
        (job.database_id, job.job_type),
    )


def is_job_enabled(database: Database, job_type: str) -> bool:
    """Whether a job runs by its schedule; by hand it can be started in any case."""
    return not database.options.get(_disabled(job_type))


def enable_job(
    connection: apsw.Connection, database: Database, job_type: str, *, enabled: bool
) -> None:
    """msdb.dbo.sp_update_job @enabled."""
    database.set_option(_disabled(job_type), int(not enabled), connection)


def _disabled(job_type: str) -> str:
    return f"cdc_{job_type}_job_disabled"


def _with_options(job: JobParameters, options: JobOptions) -> JobParameters:
    given = {
        name: getattr(options, name)
        for name in JobOptions.__dataclass_fields__
        if getattr(options, name) is not None
    }
    if job.job_type == CAPTURE:
        given.pop("threshold", None)  # accepted and not used, as documented of the cleanup job
    return replace(job, **given)


def _check_options(job_type: str, options: JobOptions) -> None:
    if job_type == CLEANUP:
        scanning = (options.pollinginterval, options.maxtrans, options.maxscans, options.continuous)
        if any(value is not None for value in scanning):
            raise messages.error(22996)
        if options.retention is not None and not 0 < options.retention <= MAX_RETENTION_MINUTES:
            raise messages.error(22994)
        if options.threshold is not None and options.threshold <= 0:
            raise messages.error(22850)
        return
    if options.retention is not None:
        raise messages.error(22995)
    check_scan_limits(options.maxtrans, options.maxscans)
    if options.pollinginterval is not None:
        check_polling_interval(options.pollinginterval)


def check_scan_limits(maxtrans: int | None, maxscans: int | None) -> None:
    """Raises 22991 or 22970 for values that are not positive."""
    if maxtrans is not None and maxtrans <= 0:
        raise messages.error(22991)
    if maxscans is not None and maxscans <= 0:
        raise messages.error(22970)


def check_polling_interval(seconds: int) -> None:
    """Raises 22990 for a negative interval or one of a day and more."""
    if not 0 <= seconds <= MAX_POLLING_INTERVAL_S:
        raise messages.error(22990)
