"""Places in a lake's log, and ranges between them. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass
from typing import Any, Self

from pyspark.sql.datasource import InputPartition

from tailrace_sink.errors import ConfigError
from tailrace_sink.reading.cut_id import CutId


@dataclass(frozen=True, slots=True)
class LogOffset:
    """The place after a cut in a lake's log. Spark stores it in a query's checkpoint.

    Attributes:
        log: Delta's id of the log.
        lsn: empty before the first cut.
        commit_ms: source commit time of the LSN, milliseconds UTC; None if unknown.
        began: id of the log's first cut, if a range starts before it.
        since: id of the cut where the query's first micro-batch starts, in the offset where it
            ends; empty: before the first one. Spark stores no start of that one: after a failure,
            it requests the initial offset again.
        batch: of the log. None: a release before ids of cuts stored the offset. It had what the
            first cut that closes the LSN has, as such a release read no later one.
    """

    log: str
    lsn: str
    commit_ms: int | None = None
    began: str | None = None
    since: str | None = None
    batch: int | None = None

    @property
    def cut(self) -> CutId | None:
        """The cut; None before the first one."""
        return CutId(self.lsn, self.batch) if self.lsn else None

    def is_before(self, other: LogOffset) -> bool:
        """Whether the place is before another one; an offset without a batch is at its LSN."""
        if self.lsn != other.lsn or self.batch is None or other.batch is None:
            return self.lsn < other.lsn
        return self.batch < other.batch

    def to_json(self) -> dict[str, Any]:
        """Convert to what Spark stores."""
        return {name: value for name, value in asdict(self).items() if value is not None}

    def start_of(self, planned: LogOffset) -> LogOffset:
        """Return where the micro-batch starts that ends here.

        Args:
            planned: where Spark lets it start; of none, it is this place itself.
        """
        if self.since is None or planned == self:
            return planned
        first = CutId.parse(self.since)
        return LogOffset(self.log, first.lsn, began=self.began, batch=first.batch)

    @classmethod
    def of_json(cls, found: Mapping[str, Any]) -> Self:
        """Convert from what Spark stored.

        Raises:
            ConfigError: another source stored it.
        """
        try:
            return cls(**found)
        except TypeError as error:
            raise ConfigError(
                [
                    "the checkpoint is of another source than the format tailrace. Fix: start the"
                    " query with a checkpoint location of its own"
                ]
            ) from error


@dataclass(frozen=True)
class LogPart(InputPartition):
    """The part of a range that one task reads.

    Attributes:
        first: the cut after which it starts; None: the start of the log.
        log: Delta's id of the log.
        began: as of the offset.
        closed_ms: commit time of the end, if it is that of the range.
    """

    first: CutId | None
    end: CutId
    log: str
    began: CutId | None = None
    closed_ms: int | None = None


def split(
    first: CutId | None, end: CutId, cuts: Iterable[tuple[CutId, int]], events_max: int
) -> Iterator[tuple[CutId | None, CutId]]:
    """Split a range at its cuts into parts, which have more than some events only if a cut has.

    Args:
        cuts: each with its number of events, in order.
    """
    count, reached = 0, first
    for cut, events in cuts:
        if count and count + events > events_max and reached is not None and reached != first:
            yield first, reached
            first, count = reached, 0
        count += events
        if reached is None or reached.order < cut.order:
            reached = cut
    if first != end:
        yield first, end
