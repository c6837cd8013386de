"""What CDC keeps in memory for a running server: scan histories, who scans, which jobs run.

All of it is lost and begins again at a restart, as in SQL Server.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final
from weakref import WeakKeyDictionary

from tailrace_emulator import messages
from tailrace_emulator.cdc.job_history import JobHistory, JobKey, RunSource, RunStatus
from tailrace_emulator.cdc.scan_sessions import ScanHistory

if TYPE_CHECKING:
    from tailrace_emulator.storage.database import Database, StorageEngine

AGENT_SESSION: Final = 0
"""Session id under which the capture job scans."""


@dataclass(slots=True)
class JobRun:
    """A job that was started and has not ended.

    Attributes:
        job_type: either ``capture`` or ``cleanup``.
        stop: set to ask the run to end at once.
        keeps_log: whether it reads the log all the time, pauses between its scans included.
    """

    database_id: int
    job_type: str
    stop: threading.Event = field(default_factory=threading.Event)
    keeps_log: bool = False


@dataclass(frozen=True, slots=True)
class AgentControl:
    """What the tailrace procedures may do with the Agent and its clock.

    Attributes:
        advance_clock: moves the server's clock forward by so many seconds; returns its ticks.
        run_due: runs every job that is due by the clock; returns how many.
        set_running: stops or starts the Agent.
    """

    advance_clock: Callable[[float], int]
    run_due: Callable[[], int]
    set_running: Callable[[bool], None]


@dataclass(slots=True)
class Runtime:
    """One per engine. ``changed`` guards ``jobs`` and wakes the thread that runs them.

    Results of scans are kept by the database itself, not by its id: ids are given again.
    """

    jobs: dict[JobKey, JobRun] = field(default_factory=dict)
    job_history: JobHistory = field(default_factory=JobHistory)
    changed: threading.Condition = field(default_factory=threading.Condition)
    agent_running: bool = True
    """False imitates a stopped SQL Server Agent: jobs cannot be started (error 22022)."""
    service_account: str = ""
    """The account that the services seem to run under; NETWORK SERVICE makes jobs fail."""
    control: AgentControl | None = None
    """How the tailrace procedures drive the Agent; None unless the server was started with them."""
    _histories: WeakKeyDictionary[Database, ScanHistory] = field(default_factory=WeakKeyDictionary)
    _scanners: WeakKeyDictionary[Database, int] = field(default_factory=WeakKeyDictionary)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def begin_run(self, job: JobKey, source: RunSource, ticks: int) -> None:
        """Starts a job, for the Agent to run; ``changed`` is held by the caller."""
        self.jobs[job] = JobRun(*job)
        self.job_history.began(job, source, ticks)
        self.changed.notify_all()

    def cancel_run(self, job: JobKey, ticks: int) -> bool:
        """Requests that a run end at once; returns whether there was one."""
        with self.changed:
            run = self.jobs.pop(job, None)
            if run is None:
                return False
            run.stop.set()
            self.job_history.ended(job, RunStatus.CANCELED, ticks)
            self.changed.notify_all()
            return True

    def history(self, database: Database) -> ScanHistory:
        """The scan sessions of a database."""
        with self._lock:
            return self._histories.setdefault(database, ScanHistory())

    @contextmanager
    def scanning(
        self, database: Database, session_id: int, *, taken: int = 22903
    ) -> Iterator[None]:
        """Claims the log scan of a database; there is one at a time.

        A capture job that runs continuously holds it from its start to its end.

        Args:
            taken: the error where another session holds it, 22903 or 18752.

        Raises:
            SqlError: ``taken``, if another session holds it.
        """
        with self.changed:
            is_kept = any(
                run.keeps_log for key, run in self.jobs.items() if key[0] == database.database_id
            )
        with self._lock:
            holder = self._scanners.get(database)
            if holder is None and is_kept and session_id != AGENT_SESSION:
                holder = AGENT_SESSION
            if holder is not None:
                if taken != 22903:
                    raise messages.error(taken)
                raise messages.error(22903, holder, procedure="sp_replcmds")
            self._scanners[database] = session_id
        try:
            yield
        finally:
            with self._lock:
                del self._scanners[database]

    def forget(self, database: Database) -> None:
        """Drops what is kept of a database, and requests that its jobs end."""
        with self.changed:
            for key in [key for key in self.jobs if key[0] == database.database_id]:
                self.jobs.pop(key).stop.set()
                self.job_history.forget(key)
            self.changed.notify_all()
        with self._lock:
            self._histories.pop(database, None)


def runtime(engine: StorageEngine) -> Runtime:
    """The runtime of an engine, made at first use."""
    return engine.part(Runtime)
