"""Runs of jobs as part of transactions: what one begins and ends begins and ends with its commit.

The Agent's jobs are in msdb, so a transaction that is undone leaves the jobs that it dropped in
place. Their runs are kept in memory (runtime.py) and must not have ended by then. A run of a job
that never came to be must not begin. Outside a write of the calling thread everything happens at
once.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tailrace_emulator.cdc.job_history import JobKey, RunSource
from tailrace_emulator.cdc.runtime import runtime

if TYPE_CHECKING:
    from tailrace_emulator.storage.database import Database, StorageEngine


@dataclass(frozen=True, slots=True)
class _RunChange:
    """What a transaction does to the runs of a database when it commits.

    Attributes:
        job_type: whose run; None for all of the database's.
        begins: whether the job runs afterwards.
    """

    database_id: int
    job_type: str | None
    begins: bool
    apply: Callable[[], object]

    def __call__(self) -> None:
        self.apply()


def _pending(engine: StorageEngine, key: JobKey) -> _RunChange | None:
    """The last thing that this thread's transaction is to do to a run."""
    changes = (
        e for e in reversed(engine.write_path.pending_effects()) if isinstance(e, _RunChange)
    )
    return next(
        (c for c in changes if c.database_id == key[0] and c.job_type in {None, key[1]}), None
    )


def is_running(engine: StorageEngine, database: Database, job_type: str) -> bool:
    """Whether a job was started and has not ended, as this thread's transaction sees it."""
    key = (database.database_id, job_type)
    change = _pending(engine, key)
    if change is not None:
        return change.begins
    state = runtime(engine)
    with state.changed:
        return key in state.jobs


def begin_run(engine: StorageEngine, database: Database, job_type: str) -> bool:
    """Begins a run, for the Agent; returns whether there was none yet."""
    key = (database.database_id, job_type)
    state = runtime(engine)

    def begin() -> bool:
        with state.changed:
            if key in state.jobs or not state.agent_running:
                return False
            state.begin_run(key, RunSource.USER, engine.clock.now_ticks())
            return True

    if not engine.write_path.joins_write():
        return begin()
    if is_running(engine, database, job_type):
        return False
    engine.write_path.after_commit(_RunChange(*key, begins=True, apply=begin))
    return True


def stop_run(engine: StorageEngine, database: Database, job_type: str) -> bool:
    """End a run now, whatever becomes of the transaction; returns whether there was one."""
    key = (database.database_id, job_type)
    if not is_running(engine, database, job_type):
        return False
    if _pending(engine, key) is not None:
        end_run(engine, database, job_type)
        return True
    return runtime(engine).cancel_run(key, engine.clock.now_ticks())


def end_run(engine: StorageEngine, database: Database, job_type: str) -> None:
    """Requests that a run end, if there is one, when the transaction commits."""
    key = (database.database_id, job_type)
    state = runtime(engine)

    def end() -> None:
        state.cancel_run(key, engine.clock.now_ticks())

    engine.write_path.after_commit(_RunChange(*key, begins=False, apply=end))


def forget_job(engine: StorageEngine, database: Database, job_type: str) -> None:
    """The job is dropped: with the commit its run ends and its history goes."""
    key = (database.database_id, job_type)
    end_run(engine, database, job_type)
    engine.write_path.after_commit(lambda: runtime(engine).job_history.forget(key))


def forget_database(engine: StorageEngine, database: Database) -> None:
    """With the commit goes what is kept of a database: its runs, their history, its scans."""
    state = runtime(engine)
    engine.write_path.after_commit(
        _RunChange(database.database_id, None, begins=False, apply=lambda: state.forget(database))
    )
