"""Attempts at one batch, after which a table that fails alone stops (ADR 0059)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Future
from typing import Final

from tailrace_sink.errors import ApplyFailed, LakeTableUnreadable, SinkError
from tailrace_sink.fold.table_batch import TableBatch
from tailrace_sink.spark.jvm_errors import shows_damage
from tailrace_sink.watch.local_disk import require_room

_FAILURES_MIN: Final = 2
"""Failures of a table that stop it in the last attempt at a batch."""


class Patience:
    """Counts a batch's attempts at each table.

    Args:
        attempts: after which a table that fails alone stops.
        lake: address of the lake.
    """

    def __init__(self, attempts: int, lake: str) -> None:
        self._attempts = attempts
        self._lake = lake
        self._batch = -1
        self._tries = 0
        self._failed: Counter[str] = Counter()

    def over(
        self,
        batch: int,
        sources: Sequence[TableBatch],
        futures: Sequence[Future[dict[str, int]]],
        removal_of: Callable[[TableBatch], str | None],
    ) -> dict[str, SinkError]:
        """Return the errors of tables that stop, by topic.

        If all of several tables fail, the cause is not in the tables. If the only table of a batch
        fails, the write of the commit row shows whether the cause is in the lake.

        Args:
            futures: of the sources in the same order; all have ended.
            removal_of: returns how to remove the lake table of a source that cannot be replaced.

        Raises:
            DiskUnwritable: no table can be written now; the attempt does not count.
        """
        if any(isinstance(future.exception(), ApplyFailed) for future in futures):
            require_room(self._lake)
        if batch != self._batch:
            self._batch, self._tries, self._failed = batch, 0, Counter()
        self._tries += 1
        failed: dict[str, tuple[TableBatch, ApplyFailed]] = {}
        for source, future in zip(sources, futures, strict=True):
            error = future.exception()
            if isinstance(error, ApplyFailed):
                failed[source.topic] = source, error
                self._failed[source.topic] += 1
        # Some damage shows only when a batch is applied again.
        is_last = self._tries >= self._attempts
        enough = min(self._attempts, _FAILURES_MIN) if is_last else self._attempts
        is_general = len(failed) == len(sources) > 1
        return {
            topic: LakeTableUnreadable(
                str(source.table), self._failed[topic], error.reason, removal_of(source)
            )
            for topic, (source, error) in failed.items()
            if self._failed[topic] >= enough
            and (not is_general or shows_damage(error.cause_classes, error.reason))
        }


def failed_last(
    futures: Iterable[Future[dict[str, int]]],
) -> list[Future[dict[str, int]]]:
    """Sort futures: errors that end the sink first, then retryable ones, then results."""

    def rank(future: Future[dict[str, int]]) -> int:
        error = future.exception()
        if error is None:
            return 2
        return 1 if getattr(error, "retryable", False) else 0

    return sorted(futures, key=rank)
