"""When jobs of one's own run, and what a run does: its steps in turn, as the Agent would."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from tailrace_emulator.cdc.job_history import RunStatus, StepError
from tailrace_emulator.cdc.own_jobs import (
    AGENT_START,
    NEXT_STEP,
    QUIT_WITH_SUCCESS,
    OwnJob,
    own_job,
    own_jobs,
)
from tailrace_emulator.cdc.runtime import JobRun, runtime
from tailrace_emulator.messages.errors import NOT_SUPPORTED, SqlError

if TYPE_CHECKING:
    from tailrace_emulator.cdc.job_history import JobKey
    from tailrace_emulator.storage.engine import Engine

RunStep = Callable[[str, str, threading.Event], SqlError | None]
"""Runs a batch in the database of that name until it ends or the event is set; returns the error
that it failed with, or None."""


def no_steps(_database: str, _command: str, _stop: threading.Event) -> SqlError | None:
    """For an Agent that nobody gave a way to run T-SQL."""
    return SqlError(NOT_SUPPORTED, "This Agent runs no T-SQL.")


class OwnJobRuns:
    """Schedules and runs them; used by the Agent's thread alone."""

    def __init__(self, engine: Engine, run_step: RunStep) -> None:
        self._engine = engine
        self._run_step = run_step
        self._begun = engine.clock.now_ticks()
        self._due: dict[str, tuple[OwnJob, int | None]] = {}

    def at_start(self) -> list[JobKey]:
        """The jobs that begin when the Agent does."""
        return [
            self._key(job)
            for job in own_jobs(self._engine)
            if job.enabled and job.schedule is not None and job.schedule.freq_type == AGENT_START
        ]

    def fallen_due(self) -> list[JobKey]:
        """The jobs whose time has come since this was asked last."""
        return list(self._fallen_due())

    def _fallen_due(self) -> Iterator[JobKey]:
        now = self._engine.clock.now_ticks()
        for job in own_jobs(self._engine):
            if not job.enabled or job.schedule is None:
                self._due.pop(job.job_id, None)
                continue
            known = self._due.get(job.job_id)
            if known is None or known[0] != job:
                # From when it was made on: the clock may have moved since. What fell due while
                # the server did not run is not made up for.
                due = job.schedule.next_due(max(job.modified, self._begun))
                known = self._due[job.job_id] = (job, due)
            if known[1] is not None and known[1] <= now:
                self._due[job.job_id] = (job, job.schedule.next_due(now))
                yield self._key(job)

    def next_due(self) -> int | None:
        """When the next one falls due."""
        return min((due for _, due in self._due.values() if due is not None), default=None)

    def run(self, run: JobRun) -> RunStatus:
        """The steps of a run, each with its entry in the history; returns how the job ended."""
        history = runtime(self._engine).job_history
        key = (run.database_id, run.job_type)
        number = 1
        while True:
            job = own_job(self._engine, run.job_type)
            if job is None or not 1 <= number <= len(job.steps):
                return RunStatus.FAILED
            step = job.steps[number - 1]
            started = self._engine.clock.now_ticks()
            error = self._run_step(step.database, step.command, run.stop)
            if run.stop.is_set():
                return RunStatus.CANCELED
            failed = StepError(error.number, error.severity, error.message) if error else None
            status = RunStatus.FAILED if failed else RunStatus.SUCCEEDED
            now = self._engine.clock.now_ticks()
            history.stepped(key, number, status, (started, now), failed)
            action = step.on_fail if failed else step.on_success
            if action != NEXT_STEP:
                return RunStatus.SUCCEEDED if action == QUIT_WITH_SUCCESS else RunStatus.FAILED
            number += 1

    def _key(self, job: OwnJob) -> JobKey:
        return (self._engine.database("msdb").database_id, job.job_type)
