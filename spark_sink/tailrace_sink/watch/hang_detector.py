"""Whether the sink still gets on: a job that hangs raises nothing, and waits for ever.

The log's thread and the fold's say when they work and when they take a step. Between two steps may
be one long job of Spark, so its tasks count, too: a stage of which one ends gets on. What the
stream's jobs do explains nothing of the fold, which may hang without a job of its own.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final

from py4j.protocol import Py4JError
from pyspark import StatusTracker
from pyspark.sql import SparkSession

_LOOK_S: Final = 5.0


class Part(StrEnum):
    """What works by itself; the text is what is told of it."""

    STREAM = "the stream of progress records"
    LOG = "a cut of the log"
    FOLD = "a batch of the tables"


@dataclass(slots=True)
class _Stage:
    """A stage of Spark: how many of its tasks have ended, and since when it is that many."""

    ended: int
    since: float


@dataclass(slots=True)
class _Seen:
    """The stages that run, and when a task of any last ended."""

    stages: dict[int, _Stage] = field(default_factory=dict)
    moved_at: float = float("-inf")

    def then(self, ended: Mapping[int, int], now: float) -> _Seen:
        """What is seen next, given how many tasks have ended of each stage that runs."""
        stages = {}
        for stage, count in ended.items():
            known = self.stages.get(stage)
            if known is None or known.ended != count:
                known = _Stage(count, now)
            stages[stage] = known
        has_ended = self.stages.keys() - stages.keys()
        has_moved = has_ended or any(stage.since == now for stage in stages.values())
        return _Seen(stages, now if has_moved else self.moved_at)

    def gets_on(self, now: float, hang_s: float) -> bool:
        """Whether a task has ended in time, and no stage stands."""
        since = max((now - stage.since for stage in self.stages.values()), default=0.0)
        return now - self.moved_at <= hang_s and since <= hang_s


class Steps:
    """The steps that the sink's threads take; asked by those of its endpoint.

    Args:
        hang_s: seconds without a step from which on working is hanging.
        monotonic: clock, seconds.

    Attributes:
        stream_group: the group of the jobs that the stream runs; None while there is none.
    """

    def __init__(self, hang_s: float, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._hang_s = hang_s
        self._monotonic = monotonic
        self._stepped_at: dict[Part, float] = {}
        self._seen = {Part.LOG: _Seen(), Part.FOLD: _Seen()}
        self.stream_group: str | None = None

    @contextmanager
    def working(self, part: Part) -> Iterator[None]:
        """A part works while the block runs: steps are expected of it."""
        self._stepped_at[part] = self._monotonic()
        try:
            yield
        finally:
            self._stepped_at.pop(part, None)

    def stepped(self, *parts: Part) -> None:
        """Parts have taken a step; those that do not work are passed over."""
        for part in parts:
            if part in self._stepped_at:
                self._stepped_at[part] = self._monotonic()

    def saw_tasks(self, ended: Mapping[int, int], of_stream: Collection[int] = ()) -> None:
        """Tasks of Spark, as they are now.

        Args:
            ended: how many tasks have ended of each stage that runs, by its number.
            of_stream: the stages of the stream's jobs.
        """
        now, seen = self._monotonic(), self._seen
        of_others = {stage: count for stage, count in ended.items() if stage not in of_stream}
        self._seen = {
            Part.LOG: seen[Part.LOG].then(ended, now),
            Part.FOLD: seen[Part.FOLD].then(of_others, now),
        }

    def hang(self) -> str | None:
        """What hangs, in a sentence; None while all that works gets on."""
        now, seen = self._monotonic(), self._seen
        # What asks Spark all the time must answer, whether Spark gets on or not.
        explained = {part for part, of in seen.items() if of.gets_on(now, self._hang_s)}
        still = {
            part: now - at for part, at in self._stepped_at.copy().items() if part not in explained
        }
        part = max(still, key=lambda part: still[part], default=None)
        if part is None or still[part] <= self._hang_s:
            return None
        return (
            f"{part} has not got on for {still[part]:.0f} s, and no task of Spark has ended that"
            f" would explain it (sink.hang_s is {self._hang_s:g}): it hangs; see Spark's own page"
            " for the job that runs, and restart the sink, which loses nothing"
        )


def look_at_tasks(tracker: StatusTracker, steps: Steps) -> None:
    """See which tasks of Spark have ended, and whose they are.

    Raises:
        Py4JError, OSError: the session is stopped.
    """
    infos = [(n, tracker.getStageInfo(n)) for n in tracker.getActiveStageIds()]
    ended = {n: info.numCompletedTasks for n, info in infos if info is not None}
    of_stream: set[int] = set()
    if ended and steps.stream_group is not None:
        of_group = set(tracker.getJobIdsForGroup(steps.stream_group))
        jobs = [tracker.getJobInfo(n) for n in tracker.getActiveJobsIds() if n in of_group]
        of_stream = {stage for job in jobs if job is not None for stage in job.stageIds}
    steps.saw_tasks(ended, of_stream)


@contextmanager
def watched_tasks(spark: SparkSession, steps: Steps) -> Iterator[None]:
    """Look at Spark's tasks from time to time while the block runs.

    Where the JVM does not answer, the thread that asks waits with it, and no step is seen.
    """
    over = threading.Event()
    tracker = spark.sparkContext.statusTracker()

    def look() -> None:
        while not over.wait(_LOOK_S):
            try:
                look_at_tasks(tracker, steps)
            except (Py4JError, OSError):
                return  # the session is stopped

    threading.Thread(target=look, name="tasks", daemon=True).start()
    try:
        yield
    finally:
        over.set()
