"""SQL Server Agent, as far as change data capture needs it: runs the capture and cleanup jobs.

One background thread serves every database. A capture job runs scan cycles until the log is drained
or maxscans cycles ran, then pauses for its pollinginterval, as documented; a continuous=0 job ends
after that. A cleanup job runs once when it is started, and every day at 2 A.M. on the engine's
clock. When the agent starts, it starts every capture job (the job's schedule says so); parameters
are read from msdb.dbo.cdc_jobs at each start and not again before the next.

``pollinginterval`` 0 means no wait between scans. A loop that asks an empty log again and again
would only burn a core, so with 0 the next scan begins when the log holds a commit, looked at every
``IDLE_LOOK_S``, and after ``IDLE_SCAN_S`` in any case (inferred as harmless: nothing documented
depends on the number of empty scans).
"""

from __future__ import annotations

import logging
import threading
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Final

import apsw

from tailrace_emulator.cdc import capture_scan, cleanup, jobs, replication
from tailrace_emulator.cdc.capture_instance import is_enabled
from tailrace_emulator.cdc.job_history import JobKey, RunSource, RunStatus, StepError
from tailrace_emulator.cdc.jobs import JobParameters
from tailrace_emulator.cdc.log_readers import all_jobs, job_name, log_reader
from tailrace_emulator.cdc.own_job_runs import OwnJobRuns, RunStep, no_steps
from tailrace_emulator.cdc.own_jobs import is_own, own_job
from tailrace_emulator.cdc.runtime import JobRun, runtime
from tailrace_emulator.cdc.scan_cycle import ChangeTableHeld
from tailrace_emulator.messages.errors import INTERNAL, SqlError
from tailrace_emulator.values.turns import turns
from tailrace_emulator.values.types import TICKS_PER_DAY

if TYPE_CHECKING:
    from tailrace_emulator.storage.engine import Database, Engine

TICKS_PER_SECOND: Final = 10_000_000
IDLE_LOOK_S: Final = 0.02
IDLE_SCAN_S: Final = 1
CLOCK_LOOK_S: Final = 1.0
"""The engine's clock may be moved by hand: the thread looks at it at least this often."""
BLOCKED_LOOK_S: Final = 0.2
"""How often a job that open transactions are in the way of is tried again."""
CLEANUP_TIME_OF_DAY: Final = 2 * 3600 * TICKS_PER_SECOND

_log = logging.getLogger(__name__)


class AgentMode(StrEnum):
    """Whether jobs run by themselves."""

    AUTOMATIC = "automatic"
    MANUAL = "manual"
    """Started jobs are recorded but nothing runs until :meth:`Agent.run_due` is called."""
    STOPPED = "stopped"
    """SQL Server Agent is not running: starting a job is refused with error 22022."""


@dataclass(slots=True)
class _Schedule:
    """A started job: its parameters as of the start, and when it is due next (ticks)."""

    run: JobRun
    parameters: JobParameters
    due: int
    is_new: bool = False
    """It has not begun yet: its parameters are read when it does."""
    is_blocked: bool = False
    """Open transactions are in its way (a cleanup's rows, a change table that a scan is to alter):
    it is looked at again."""


class Agent:
    """Runs the jobs of one engine."""

    def __init__(
        self,
        engine: Engine,
        mode: AgentMode | str = AgentMode.AUTOMATIC,
        start_delay_s: float = 0.0,
        run_step: RunStep = no_steps,
    ) -> None:
        """Prepares the agent; nothing runs before :meth:`start`.

        Args:
            engine: whose jobs.
            mode: whether jobs run by themselves.
            start_delay_s: how long after its start a job begins and reads its parameters, by the
                engine's clock; a real Agent takes a second or two.
            run_step: runs the steps of jobs of one's own.
        """
        self._own = OwnJobRuns(engine, run_step)
        self._start_delay = round(start_delay_s * TICKS_PER_SECOND)
        self._engine = engine
        self._connection = engine.connect()
        self.mode = AgentMode(mode)
        self._state = runtime(engine)
        self._state.agent_running = self.mode is not AgentMode.STOPPED
        self._schedules: dict[tuple[int, str], _Schedule] = {}
        self._next_cleanup = _next_two_o_clock(engine.clock.now_ticks())
        self._closing = threading.Event()
        self._running = threading.Lock()
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        """Starts every capture job, as its schedule says, and in automatic mode the thread."""
        if self.mode is AgentMode.STOPPED:
            return
        self._start_capture_jobs()
        self._start_thread()

    def _start_thread(self) -> None:
        if self.mode is not AgentMode.MANUAL and self._thread is None:
            self._thread = threading.Thread(target=self._loop, name="agent", daemon=True)
            self._thread.start()

    def close(self) -> None:
        """Ends every run at once and waits for the thread."""
        self._closing.set()
        with self._state.changed:
            for run in self._state.jobs.values():
                run.stop.set()
            self._state.changed.notify_all()
        if self._thread is not None:
            self._thread.join()
            self._thread = None
        self._connection.close()

    def wake(self) -> None:
        """Lets the thread look at the clock now; for clocks that are moved by hand."""
        with self._state.changed:
            self._state.changed.notify_all()

    def set_running(self, running: bool) -> None:
        """Stops the Agent, which ends every run at once, or starts it as :meth:`start` does."""
        with self._state.changed:
            was_running, self._state.agent_running = self._state.agent_running, running
            if not running:
                for key in list(self._state.jobs):
                    self._state.cancel_run(key, self._engine.clock.now_ticks())
            self._state.changed.notify_all()
        if running and not was_running:
            self._next_cleanup = _next_two_o_clock(self._engine.clock.now_ticks())
            self._start_capture_jobs()
            self._start_thread()
            self.wake()

    def run_due(self) -> int:
        """Runs, in this thread, every job that is due by the engine's clock; returns how many."""
        with self._running:
            return self._run_due()

    def _run_due(self) -> int:
        if not self._state.agent_running:
            self._schedules.clear()
            return 0
        self._start_daily_cleanup()
        for key in self._own.fallen_due():
            self._begin(key, RunSource.SCHEDULER)
        self._adopt()
        ran = 0
        for key, schedule in list(self._schedules.items()):
            if self._closing.is_set():
                break
            if schedule.run.stop.is_set():
                del self._schedules[key]
            elif self._is_due(schedule) and self._begins(key, schedule):
                self._run(key, schedule)
                ran += 1
        return ran

    # -- scheduling --------------------------------------------------------------------------------

    def _loop(self) -> None:
        while not self._closing.is_set():
            turns.take()
            try:
                self.run_due()
            except Exception:  # noqa: BLE001 - capture must not end silently with the thread
                _log.exception("a job failed; the agent goes on")
                turns.give()
                self._closing.wait(CLOCK_LOOK_S)
            finally:
                turns.give()
            with self._state.changed:
                if not self._closing.is_set() and not self._news():
                    self._state.changed.wait(self._wait_s())

    def _news(self) -> bool:
        """Whether jobs were started or stopped since they were last looked at."""
        return {k: s.run for k, s in self._schedules.items()} != self._state.jobs

    def _wait_s(self) -> float:
        now = self._engine.clock.now_ticks()
        waits = [CLOCK_LOOK_S, (self._next_cleanup - now) / TICKS_PER_SECOND]
        due = self._own.next_due()
        if due is not None:
            waits.append((due - now) / TICKS_PER_SECOND)
        for schedule in self._schedules.values():
            if schedule.is_blocked:
                waits.append(BLOCKED_LOOK_S)
            elif not schedule.is_new and _waits_for_commits(schedule.parameters):
                waits.append(IDLE_LOOK_S)
            else:
                waits.append((schedule.due - now) / TICKS_PER_SECOND)
        return max(0.0, min(waits))

    def _begins(self, key: tuple[int, str], schedule: _Schedule) -> bool:
        """Whether a run that is due goes on; one that was delayed reads its parameters now."""
        if not schedule.is_new:
            return True
        schedule.is_new = False
        database = self._engine.database_by_id(schedule.run.database_id)
        parameters = self._parameters(database, schedule.run.job_type) if database else None
        if parameters is None:
            self._end(key, schedule.run)
            return False
        schedule.parameters = parameters
        schedule.run.keeps_log = bool(parameters.continuous) and self.mode is not AgentMode.MANUAL
        return True

    def _is_due(self, schedule: _Schedule) -> bool:
        if self._engine.clock.now_ticks() >= schedule.due:
            return True
        if schedule.is_new or not _waits_for_commits(schedule.parameters):
            return False
        database = self._engine.database_by_id(schedule.run.database_id)
        return database is None or database.log.last_commit() is not None

    def _adopt(self) -> None:
        """Takes over the runs that were started, with the parameters of this moment."""
        with self._state.changed:
            runs = dict(self._state.jobs)
        for key in [key for key, s in self._schedules.items() if runs.get(key) is not s.run]:
            del self._schedules[key]
        for key, run in runs.items():
            if key in self._schedules:
                continue
            database = self._engine.database_by_id(run.database_id)
            parameters = self._parameters(database, run.job_type) if database else None
            if parameters is None:
                self._end(key, run)
                continue
            run.keeps_log = bool(parameters.continuous) and self.mode is not AgentMode.MANUAL
            due = self._engine.clock.now_ticks() + self._start_delay
            self._schedules[key] = _Schedule(run, parameters, due, is_new=bool(self._start_delay))

    def _start_capture_jobs(self) -> None:
        with self._engine.write() as connection:
            found = list(all_jobs(connection, self._engine))
        for database, job in found:
            by_itself = job.job_type == jobs.CLEANUP or is_own(job.job_type)
            if not by_itself and jobs.is_job_enabled(database, job.job_type):
                self._request(job, RunSource.BOOT)
        for key in self._own.at_start():
            self._begin(key, RunSource.BOOT)

    def _start_daily_cleanup(self) -> None:
        now = self._engine.clock.now_ticks()
        if now < self._next_cleanup:
            return
        self._next_cleanup = _next_two_o_clock(now)
        for job in jobs.jobs_of(self._connection, self._engine):
            database = self._engine.database_by_id(job.database_id)
            if job.job_type != jobs.CLEANUP or database is None:
                continue
            if jobs.is_job_enabled(database, job.job_type):
                self._request(job, RunSource.SCHEDULER)

    def _request(self, job: JobParameters, source: RunSource) -> None:
        self._begin((job.database_id, job.job_type), source)

    def _begin(self, key: JobKey, source: RunSource) -> None:
        with self._state.changed:
            if key not in self._state.jobs:
                self._state.begin_run(key, source, self._engine.clock.now_ticks())

    # -- running -----------------------------------------------------------------------------------

    def _run(self, key: tuple[int, str], schedule: _Schedule) -> None:
        if is_own(schedule.run.job_type):
            self._run_own(key, schedule.run)
            return
        database = self._engine.database_by_id(schedule.run.database_id)
        parameters = schedule.parameters
        reads_for_replication = parameters.job_type == replication.LOG_READER
        if database is None or not (self._is_captured(database) or reads_for_replication):
            self._end(key, schedule.run)
            return
        error: StepError | None = None
        schedule.is_blocked = False
        try:
            if parameters.job_type == jobs.CLEANUP:
                schedule.is_blocked = cleanup.run_cleanup_job(self._engine, database).blocked
                if not schedule.is_blocked:
                    self._end(key, schedule.run)
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
            self._end(key, schedule.run, error)

    def _run_own(self, key: JobKey, run: JobRun) -> None:
        status = self._own.run(run)
        self._schedules.pop(key, None)
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

    def _capture(self, database: Database, schedule: _Schedule) -> bool:
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

    def _end(self, key: tuple[int, str], run: JobRun, error: StepError | None = None) -> None:
        self._schedules.pop(key, None)
        with self._state.changed:
            if self._state.jobs.get(key) is run:
                del self._state.jobs[key]
                status = RunStatus.SUCCEEDED if error is None else RunStatus.FAILED
                now = self._engine.clock.now_ticks()
                self._state.job_history.ended(key, status, now, error)

    def _parameters(self, database: Database, job_type: str) -> JobParameters | None:
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


def _waits_for_commits(parameters: JobParameters) -> bool:
    return bool(parameters.continuous) and not parameters.pollinginterval


def _next_two_o_clock(now: int) -> int:
    midnight = now - now % TICKS_PER_DAY
    today = midnight + CLEANUP_TIME_OF_DAY
    return today if now < today else today + TICKS_PER_DAY
