"""What the Agent's jobs did: msdb.dbo.sysjobhistory and sysjobactivity.

A run that ends leaves two entries, one of its step and one of the job (step 0), as SQL Server Agent
does. A capture scan that failed and will be tried again leaves one of its step. Kept in memory
(coarser than SQL Server, whose history outlives a restart), at most a thousand entries, which is
the Agent's default. Inferred: the texts, whose user is always sa.

https://learn.microsoft.com/sql/relational-databases/system-tables/dbo-sysjobhistory-transact-sql
"""

from __future__ import annotations

import threading
from collections import deque
from dataclasses import dataclass, field, replace
from enum import IntEnum
from typing import Final

ENTRIES_MAX: Final = 1000
_TICKS_PER_SECOND: Final = 10_000_000

JobKey = tuple[int, str]
"""Database id and type of a job."""


class RunStatus(IntEnum):
    """How a run or a step of it ended: run_status."""

    FAILED = 0
    SUCCEEDED = 1
    RETRY = 2
    CANCELED = 3


class RunSource(IntEnum):
    """Who asked for a run: run_requested_source."""

    SCHEDULER = 1
    BOOT = 3
    USER = 4


@dataclass(frozen=True, slots=True)
class StepError:
    """The error of a step: number, severity and text."""

    number: int
    severity: int
    text: str


@dataclass(frozen=True, slots=True)
class HistoryEntry:
    """One row of sysjobhistory; ``step_id`` 0 is the job's outcome. Times are ticks."""

    instance_id: int
    job: JobKey
    step_id: int
    status: RunStatus
    started_ticks: int
    ended_ticks: int
    source: RunSource
    error: StepError | None = None

    @property
    def duration_s(self) -> int:
        """Whole seconds."""
        return max(0, self.ended_ticks - self.started_ticks) // _TICKS_PER_SECOND


@dataclass(slots=True)
class Activity:
    """The newest run of a job: its row of sysjobactivity. Times are ticks."""

    source: RunSource
    started_ticks: int
    ended_ticks: int | None = None
    history_id: int | None = None
    last_step: int = 0
    """The step that ended last, or 0."""


@dataclass(slots=True)
class JobHistory:
    """The runs of all jobs since the server started. Thread-safe."""

    _entries: deque[HistoryEntry] = field(default_factory=lambda: deque(maxlen=ENTRIES_MAX))
    _activities: dict[JobKey, Activity] = field(default_factory=dict)
    _next_id: int = 1
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def began(self, job: JobKey, source: RunSource, ticks: int) -> None:
        """A run was started."""
        with self._lock:
            self._activities[job] = Activity(source, ticks)

    def retried(self, job: JobKey, ticks: int, error: StepError) -> None:
        """The step of a run failed and will be tried again."""
        with self._lock:
            activity = self._activities.get(job)
            if activity is not None:
                self._add(job, 1, RunStatus.RETRY, activity, ticks, error)

    def stepped(
        self,
        job: JobKey,
        step_id: int,
        status: RunStatus,
        ticks: tuple[int, int],
        error: StepError | None,
    ) -> None:
        """A step of a run ended, which began and ended at these ticks."""
        with self._lock:
            activity = self._activities.get(job)
            if activity is not None and activity.ended_ticks is None:
                activity.last_step = step_id
                began, ended = ticks
                self._add(
                    job, step_id, status, replace(activity, started_ticks=began), ended, error
                )

    def ended(
        self,
        job: JobKey,
        status: RunStatus,
        ticks: int,
        error: StepError | None = None,
        *,
        has_steps: bool = False,
    ) -> None:
        """A run ended; without one, or when its end is known already, nothing happens.

        Args:
            error: of its one step.
            has_steps: whether its steps have their entries already.
        """
        with self._lock:
            activity = self._activities.get(job)
            if activity is None or activity.ended_ticks is not None:
                return
            activity.ended_ticks = ticks
            if not has_steps:
                activity.last_step = 1
                self._add(job, 1, status, activity, ticks, error)
            activity.history_id = self._add(job, 0, status, activity, ticks, None)

    def forget(self, job: JobKey) -> None:
        """The job is gone, and its history with it."""
        with self._lock:
            self._activities.pop(job, None)
            kept = [entry for entry in self._entries if entry.job != job]
            self._entries.clear()
            self._entries.extend(kept)

    def entries(self, job: JobKey) -> list[HistoryEntry]:
        """The entries of a job, oldest first."""
        with self._lock:
            return [entry for entry in self._entries if entry.job == job]

    def activity(self, job: JobKey) -> Activity | None:
        """The newest run of a job, or None when it never ran."""
        with self._lock:
            return self._activities.get(job)

    def _add(
        self,
        job: JobKey,
        step_id: int,
        status: RunStatus,
        activity: Activity,
        ticks: int,
        error: StepError | None,
    ) -> int:
        number = self._next_id
        self._next_id += 1
        self._entries.append(
            HistoryEntry(
                number, job, step_id, status, activity.started_ticks, ticks, activity.source, error
            )
        )
        return number
