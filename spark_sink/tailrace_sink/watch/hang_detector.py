"""Detection of a sink that hangs: a job that hangs raises nothing and waits forever.

The threads of log and fold report when they work and when they take a step. Between two steps one
long Spark job may run, so a task that ends counts as progress of its stage. Jobs of the stream do
not count as progress of the fold, which may hang without a job.
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
    """A part that works on its own; the value is its name in messages."""

    STREAM = "the stream of progress records"
    LOG = "a cut of the log"
    FOLD = "a batch of the tables"


@dataclass(slots=True)
class _Stage:
    """A stage of Spark: the number of its tasks that ended, and since when."""

    ended: int
    since: float


@dataclass(slots=True)
class _Seen:
    """The running stages, and the time at which a task of any of them last ended."""

    stages: dict[int, _Stage] = field(default_factory=dict)
    moved_at: float = float("-inf")

    def then(self, ended: Mapping[int, int], now: float) -> _Seen:
        """Return the next observation, given the number of ended tasks of each running stage."""
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
        """Whether a task ended in time and every stage makes progress."""
        since = max((now - stage.since for stage in self.stages.values()), default=0.0)
        return now - self.moved_at <= hang_s and since <= hang_s


class Steps:
    """The steps of the sink's threads, read by the threads of its endpoint.

    Args:
        hang_s: seconds without a step after which a working part counts as hanging.

    Attributes:
        stream_group: Spark's job group of the stream; None while no stream runs.
    """

    def __init__(self, hang_s: float, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._hang_s = hang_s
        self._monotonic = monotonic
        self._stepped_at: dict[Part, float] = {}
        self._seen = {Part.LOG: _Seen(), Part.FOLD: _Seen()}
        self.stream_group: str | None = None

    @contextmanager
    def working(self, part: Part) -> Iterator[None]:
        """Expect steps of a part while the block runs."""
        self._stepped_at[part] = self._monotonic()
        try:
            yield
        finally:
            self._stepped_at.pop(part, None)

    def stepped(self, *parts: Part) -> None:
        """Record a step of the parts that are working."""
        for part in parts:
            if part in self._stepped_at:
                self._stepped_at[part] = self._monotonic()

    def saw_tasks(self, ended: Mapping[int, int], of_stream: Collection[int] = ()) -> None:
        """Record the present tasks of Spark.

        Args:
            ended: stage id to the number of its tasks that ended, for each running stage.
            of_stream: ids of the stages of the stream's jobs.
        """
        now, seen = self._monotonic(), self._seen
        of_others = {stage: count for stage, count in ended.items() if stage not in of_stream}
        self._seen = {
            Part.LOG: seen[Part.LOG].then(ended, now),
            Part.FOLD: seen[Part.FOLD].then(of_others, now),
        }

    def hang(self) -> str | None:
        """Describe the part that hangs in a sentence; None if every part makes progress."""
        now, seen = self._monotonic(), self._seen
        # Only recorded observations are read: /health must answer even if Spark does not.
        explained = {part for part, of in seen.items() if of.gets_on(now, self._hang_s)}
        still = {
            part: now - at for part, at in self._stepped_at.copy().items() if part not in explained
        }
        part = max(still, key=lambda part: still[part], default=None)
        if part is None or still[part] <= self._hang_s:
            return None
        return (
            f"{part} has made no progress for {still[part]:.0f} s, and no task of Spark has ended"
            f" that would explain it (sink.hang_s is {self._hang_s:g}): it hangs. Fix: see Spark's"
            " own page for the running job, and restart the sink, which loses nothing"
        )


def look_at_tasks(tracker: StatusTracker, steps: Steps) -> None:
    """Record which tasks of Spark have ended, and of which part.

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
    """Watch Spark's tasks while the block runs.

    If the JVM does not answer, the watching thread waits too, so that no progress is recorded.
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
