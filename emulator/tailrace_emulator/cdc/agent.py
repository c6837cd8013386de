"""SQL Server Agent, as far as change data capture needs it: runs the capture and cleanup jobs.

One background thread serves every database. A capture job runs scan cycles until the log is drained
or maxscans cycles ran. Then it pauses for its pollinginterval, as documented; a continuous=0 job
ends instead. A cleanup job runs once when it is started, and every day at 2 A.M. on the engine's
clock. When the agent starts, it starts every capture job (the job's schedule says so). Parameters
are read from msdb.dbo.cdc_jobs at each start and not again before the next.

``pollinginterval`` 0 means no wait between scans. A loop that reads an empty log again and again
would only burn a core. So with 0 the next scan begins when the log holds a commit, which is checked
every ``IDLE_LOOK_S``. It begins after ``IDLE_SCAN_S`` in any case. Inferred as harmless: nothing
documented depends on the number of empty scans.
"""

from __future__ import annotations

import logging
import threading
from enum import StrEnum
from typing import TYPE_CHECKING, Final

from tailrace_emulator.cdc import jobs
from tailrace_emulator.cdc.agent_runs import (
    TICKS_PER_SECOND,
    AgentRuns,
    Schedule,
    waits_for_commits,
)
from tailrace_emulator.cdc.job_history import JobKey, RunSource
from tailrace_emulator.cdc.jobs import JobParameters
from tailrace_emulator.cdc.log_readers import all_jobs
from tailrace_emulator.cdc.own_job_runs import OwnJobRuns, RunStep, no_steps
from tailrace_emulator.cdc.own_jobs import is_own
from tailrace_emulator.cdc.runtime import runtime
from tailrace_emulator.values.turns import turns
from tailrace_emulator.values.types import TICKS_PER_DAY

if TYPE_CHECKING:
    from tailrace_emulator.storage.engine import Engine

IDLE_LOOK_S: Final = 0.02
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
        self._next_cleanup = _next_two_o_clock(engine.clock.now_ticks())
        self._closing = threading.Event()
        self._runs = AgentRuns(engine, self._own, self._closing)
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
            self._runs.schedules.clear()
            return 0
        self._start_daily_cleanup()
        for key in self._own.fallen_due():
            self._begin(key, RunSource.SCHEDULER)
        self._adopt()
        ran = 0
        for key, schedule in list(self._runs.schedules.items()):
            if self._closing.is_set():
                break
            if schedule.run.stop.is_set():
                del self._runs.schedules[key]
            elif self._is_due(schedule) and self._begins(key, schedule):
                self._runs.run(key, schedule)
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
        return {k: s.run for k, s in self._runs.schedules.items()} != self._state.jobs

    def _wait_s(self) -> float:
        now = self._engine.clock.now_ticks()
        waits = [CLOCK_LOOK_S, (self._next_cleanup - now) / TICKS_PER_SECOND]
        due = self._own.next_due()
        if due is not None:
            waits.append((due - now) / TICKS_PER_SECOND)
        for schedule in self._runs.schedules.values():
            if schedule.is_blocked:
                waits.append(BLOCKED_LOOK_S)
            elif not schedule.is_new and waits_for_commits(schedule.parameters):
                waits.append(IDLE_LOOK_S)
            else:
                waits.append((schedule.due - now) / TICKS_PER_SECOND)
        return max(0.0, min(waits))

    def _begins(self, key: tuple[int, str], schedule: Schedule) -> bool:
        """Whether a run that is due continues; one that was delayed reads its parameters now."""
        if not schedule.is_new:
            return True
        schedule.is_new = False
        database = self._engine.database_by_id(schedule.run.database_id)
        parameters = self._runs.parameters(database, schedule.run.job_type) if database else None
        if parameters is None:
            self._runs.end(key, schedule.run)
            return False
        schedule.parameters = parameters
        schedule.run.keeps_log = bool(parameters.continuous) and self.mode is not AgentMode.MANUAL
        return True

    def _is_due(self, schedule: Schedule) -> bool:
        if self._engine.clock.now_ticks() >= schedule.due:
            return True
        if schedule.is_new or not waits_for_commits(schedule.parameters):
            return False
        database = self._engine.database_by_id(schedule.run.database_id)
        return database is None or database.log.last_commit() is not None

    def _adopt(self) -> None:
        """Takes over the runs that were started, with the parameters of this moment."""
        with self._state.changed:
            runs = dict(self._state.jobs)
        for key in [key for key, s in self._runs.schedules.items() if runs.get(key) is not s.run]:
            del self._runs.schedules[key]
        for key, run in runs.items():
            if key in self._runs.schedules:
                continue
            database = self._engine.database_by_id(run.database_id)
            parameters = self._runs.parameters(database, run.job_type) if database else None
            if parameters is None:
                self._runs.end(key, run)
                continue
            run.keeps_log = bool(parameters.continuous) and self.mode is not AgentMode.MANUAL
            due = self._engine.clock.now_ticks() + self._start_delay
            is_new = bool(self._start_delay)
            self._runs.schedules[key] = Schedule(run, parameters, due, is_new)

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


def _next_two_o_clock(now: int) -> int:
    midnight = now - now % TICKS_PER_DAY
    today = midnight + CLEANUP_TIME_OF_DAY
    return today if now < today else today + TICKS_PER_DAY
