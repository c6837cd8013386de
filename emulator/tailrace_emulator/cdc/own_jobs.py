"""Jobs of one's own: steps of T-SQL with a schedule, kept in msdb.

The cleanup document describes such a job: "any number of strategies can be used to determine the
smallest lsn to keep". A job's runs are kept as those of change data capture's jobs are
(job_history.py); its type is ``own:`` and its id, its database is msdb.

https://learn.microsoft.com/sql/relational-databases/system-stored-procedures/sp-add-jobschedule-transact-sql
"""

from __future__ import annotations

import datetime
import json
import uuid
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Final

from tailrace_emulator.values.types import TICKS_PER_DAY

if TYPE_CHECKING:
    from collections.abc import Iterator

    import apsw

    from tailrace_emulator.storage.database import Database, StorageEngine

PREFIX: Final = "own:"
_OPTION: Final = "agent_job_"
_TICKS_PER_SECOND: Final = 10_000_000

ONCE: Final = 1
DAILY: Final = 4
AGENT_START: Final = 64
FREQUENCIES: Final = (ONCE, DAILY, AGENT_START)
AT_TIME: Final = 1
_UNITS_S: Final = {2: 1, 4: 60, 8: 3600}
"""Seconds of a subday type."""
SUBDAY_TYPES: Final = (AT_TIME, *_UNITS_S)

QUIT_WITH_SUCCESS: Final = 1
QUIT_WITH_FAILURE: Final = 2
NEXT_STEP: Final = 3
ACTIONS: Final = (QUIT_WITH_SUCCESS, QUIT_WITH_FAILURE, NEXT_STEP)


@dataclass(frozen=True, slots=True)
class Step:
    """A step: a T-SQL batch in a database, and what follows its success and failure."""

    name: str
    database: str
    command: str
    on_success: int = QUIT_WITH_SUCCESS
    on_fail: int = QUIT_WITH_FAILURE


@dataclass(frozen=True, slots=True)
class Schedule:
    """When a job runs; dates are yyyymmdd, times hhmmss, as msdb keeps them."""

    name: str
    enabled: bool
    freq_type: int
    freq_interval: int
    subday_type: int
    subday_interval: int
    start_date: int
    end_date: int
    start_time: int
    end_time: int

    def next_due(self, after: int) -> int | None:
        """The first moment (ticks) later than ``after``; None when there is none any more."""
        if not self.enabled or self.freq_type == AGENT_START:
            return None
        first, last = _days(self.start_date), _days(self.end_date)
        if self.freq_type == ONCE:
            moment = first * TICKS_PER_DAY + _ticks(self.start_time)
            return moment if moment > after else None
        every = max(self.freq_interval, 1)
        day = max(first, after // TICKS_PER_DAY)
        day += -(day - first) % every
        while day <= last:
            for moment in self._moments(day * TICKS_PER_DAY, after):
                if moment > after:
                    return moment
            day += every
        return None

    def _moments(self, midnight: int, after: int) -> Iterator[int]:
        """The moments of a day, from about ``after`` on."""
        start = midnight + _ticks(self.start_time)
        if self.subday_type == AT_TIME:
            yield start
            return
        step = _UNITS_S[self.subday_type] * max(self.subday_interval, 1) * _TICKS_PER_SECOND
        passed = max(0, (after - start) // step)
        moment = start + passed * step
        while moment <= midnight + _ticks(self.end_time):
            yield moment
            moment += step


@dataclass(frozen=True, slots=True)
class OwnJob:
    """A job; times are ticks."""

    job_id: str
    name: str
    enabled: bool
    description: str
    created: int
    modified: int
    steps: tuple[Step, ...] = ()
    schedule: Schedule | None = field(default=None)

    @property
    def job_type(self) -> str:
        """What stands for it where jobs are known by database and type."""
        return PREFIX + self.job_id

    @property
    def guid(self) -> uuid.UUID:
        """Its job_id."""
        return uuid.UUID(self.job_id)


def is_own(job_type: str) -> bool:
    """Whether a type is that of a job of one's own."""
    return job_type.startswith(PREFIX)


def own_jobs(engine: StorageEngine) -> list[OwnJob]:
    """All of them, by name."""
    options = engine.database("msdb").options
    texts = [v for k, v in options.items() if k.startswith(_OPTION) and isinstance(v, str)]
    return sorted(map(_read, texts), key=lambda job: job.name.casefold())


def own_job(engine: StorageEngine, job_type: str) -> OwnJob | None:
    """The job of that type, or None."""
    text = engine.database("msdb").options.get(_OPTION + job_type.removeprefix(PREFIX))
    return _read(text) if isinstance(text, str) else None


def put_job(connection: apsw.Connection, msdb: Database, job: OwnJob) -> None:
    """Adds or replaces a job, inside a write."""
    msdb.set_option(_OPTION + job.job_id, json.dumps(asdict(job)), connection)


def remove_job(connection: apsw.Connection, msdb: Database, job: OwnJob) -> None:
    """Removes a job, inside a write."""
    msdb.set_option(_OPTION + job.job_id, None, connection)


def today(ticks: int) -> int:
    """A moment's date as yyyymmdd."""
    date = datetime.date.fromordinal(ticks // TICKS_PER_DAY + 1)
    return date.year * 10_000 + date.month * 100 + date.day


def _read(text: str) -> OwnJob:
    raw = json.loads(text)
    steps = tuple(Step(**step) for step in raw.pop("steps"))
    schedule = raw.pop("schedule")
    return OwnJob(**raw, steps=steps, schedule=schedule and Schedule(**schedule))


def _days(date: int) -> int:
    """Days since 0001-01-01 of yyyymmdd."""
    return datetime.date(date // 10_000, date // 100 % 100, date % 100).toordinal() - 1


def _ticks(time: int) -> int:
    """Ticks since midnight of hhmmss."""
    seconds = time // 10_000 * 3600 + time // 100 % 100 * 60 + time % 100
    return seconds * _TICKS_PER_SECOND
