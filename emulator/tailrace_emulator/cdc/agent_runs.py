"""What a due run of a job does: a scan, a cleanup, or the steps of a job of one's own."""

from __future__ import annotations

import logging
import threading
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import apsw

from tailrace_emulator.cdc import capture_scan, cleanup, jobs, replication
from tailrace_emulator.cdc.capture_instance import is_enabled
from tailrace_emulator.cdc.job_history import JobKey, RunStatus, StepError
from tailrace_emulator.cdc.jobs import JobParameters
from tailrace_emulator.cdc.log_readers import job_name, log_reader
from tailrace_emulator.cdc.own_job_runs import OwnJobRuns
from tailrace_emulator.cdc.own_jobs import is_own, own_job
from tailrace_emulator.cdc.runtime import JobRun, runtime
from tailrace_emulator.cdc.scan_cycle import ChangeTableHeld
from tailrace_emulator.messages.errors import INTERNAL, SqlError

if TYPE_CHECKING:
    from tailrace_emulator.storage.engine import Database, Engine

TICKS_PER_SECOND: Final = 10_000_000
IDLE_SCAN_S: Final = 1

_log = logging.getLogger(__name__)


@dataclass(slots=True)
class Schedule:
    """A started job: its parameters as of the start, and when it is due next (ticks)."""

    run: JobRun
    parameters: JobParameters
    due: int
    is_new: bool = False
    """It has not started yet: its parameters are read when it does."""
    is_blocked: bool = False
    """Open transactions are in its way (a cleanup's rows, a change table that a scan is to alter):
    it is looked at again."""


class AgentRuns:
    """Runs the jobs of one engine when they are due; used by the Agent's thread alone.

    Args:
        own: runs jobs of one's own.
        closing: set when the Agent ends.

    Attributes:
        schedules: the started jobs, by database and type; those that have ended are missing.
    """

    def __init__(self, engine: Engine, own: OwnJobRuns, closing: threading.Event) -> None:
        self._engine = engine
        self._own = own
        self._closing = closing
        self._state = runtime(engine)
        self.schedules: dict[JobKey, Schedule] = {}

    def run(self, key: JobKey, schedule: Schedule) -> None:
        """Do what a job does once, and say when it is due next, or that it has ended."""
        if is_own(schedule.run.job_type):
            self._run_own(key, schedule.run)
            return
        database = self._engine.database_by_id(schedule.run.database_id)
        parameters = schedule.parameters
        reads_for_replication = parameters.job_type == replication.LOG_READER
        if database is None or not (self._is_captured(database) or reads_for_replication):
            self.end(key, schedule.run)
            return
        error: StepError | None = None
        schedule.is_blocked = False
        try:
            if parameters.job_type == jobs.CLEANUP:
                schedule.is_blocked = cleanup.run_cleanup_job(self._engine, database).blocked
                if not schedule.is_blocked:
                    self.end(key, schedule.run)
                return
            if is_enabled(database):
                schedule.is_blocked = not self._capture(database, schedule)
                if schedule.is_blocked:
                    return
        except (SqlError, apsw.Error) as caught:
            # The Agent's job step fails and is retried; a failed capture scan is retried after
            # its pause, and the error stands in sys.dm_cdc_errors.
            _log.warning("job %s failed: %s", job_name(database, parameters.job_type), caught)
            error = _step_error(caught)
        if parameters.continuous and not schedule.run.stop.is_set():
            if error is not None:
                now = self._engine.clock.now_ticks()
                self._state.job_history.retried(key, now, error)
            pause = parameters.pollinginterval or IDLE_SCAN_S
            schedule.due = self._engine.clock.now_ticks() + pause * TICKS_PER_SECOND
        else:
            self.end(key, schedule.run, error)

    def _run_own(self, key: JobKey, run: JobRun) -> None:
        status = self._own.run(run)
        self.schedules.pop(key, None)
        with self._state.changed:
            if self._state.jobs.get(key) is run:
                del self._state.jobs[key]
                now = self._engine.clock.now_ticks()
                self._state.job_history.ended(key, status, now, has_steps=True)

    def _is_captured(self, database: Database) -> bool:
        """Whether the database is enabled; one that is being disabled is until that commits."""
        if is_enabled(database):
            return True
        with self._engine.write():
            return is_enabled(database)

    def _capture(self, database: Database, schedule: Schedule) -> bool:
        """Scans; returns whether no transaction was in the way."""
        parameters = schedule.parameters
        try:
            capture_scan.scan(
                self._engine,
                database,
                maxtrans=parameters.maxtrans or capture_scan.MAXTRANS_DEFAULT,
                maxscans=parameters.maxscans or capture_scan.MAXSCANS_DEFAULT,
                stopped=lambda: schedule.run.stop.is_set() or self._closing.is_set(),
            )
        except ChangeTableHeld:
            return False
        return True

    def end(self, key: JobKey, run: JobRun, error: StepError | None = None) -> None:
        """A run has ended; its entry goes to the history."""
        self.schedules.pop(key, None)
        with self._state.changed:
            if self._state.jobs.get(key) is run:
                del self._state.jobs[key]
                status = RunStatus.SUCCEEDED if error is None else RunStatus.FAILED
                now = self._engine.clock.now_ticks()
                self._state.job_history.ended(key, status, now, error)

    def parameters(self, database: Database, job_type: str) -> JobParameters | None:
        """The parameters of a job at this moment; None when there is no such job."""
        if is_own(job_type):
            own = own_job(self._engine, job_type)
            if own is None:
                return None
            return JobParameters(database.database_id, job_type, own.guid)
        if job_type == replication.LOG_READER:
            return log_reader(database) if replication.has_log_reader(database) else None
        # Read in turn with writers: who started the job may not have committed it yet.
        with self._engine.write() as connection:
            found = jobs.jobs_of(connection, self._engine, database)
        return next((job for job in found if job.job_type == job_type), None)


def _step_error(error: SqlError | apsw.Error) -> StepError:
    if isinstance(error, SqlError):
        return StepError(error.number, error.severity, error.message)
    return StepError(INTERNAL, 16, str(error))


def waits_for_commits(parameters: JobParameters) -> bool:
    """Whether a job scans again as soon as there is a commit."""
    return bool(parameters.continuous) and not parameters.pollinginterval
