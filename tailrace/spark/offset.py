"""Places in a lake's log, and ranges between them. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass
from itertools import groupby
from operator import itemgetter
from typing import Any, Self

from pyspark.sql.datasource import InputPartition

from tailrace_sink.errors import ConfigError


@dataclass(frozen=True, slots=True)
class LogOffset:
    """The place after a closed LSN in a lake's log. Spark stores it in a query's checkpoint.

    Attributes:
        log: Delta's id of the log.
        lsn: empty before the first cut.
        commit_ms: source commit time of the LSN, milliseconds UTC; None if unknown.
        began: LSN that the log's first cut closed, if a range starts before it; empty: the first
            cut had none.
        since: LSN where the query's first micro-batch starts, in the offset where it ends. Spark
            stores no start of that one: after a failure, it requests the initial offset again.
    """

    log: str
    lsn: str
    commit_ms: int | None = None
    began: str | None = None
    since: str | None = None

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
        return LogOffset(self.log, self.since, began=self.began)

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
        first: LSN after which it starts; None: the start of the log.
        end: LSN of its last point.
        log: Delta's id of the log.
        began: as of the offset.
        closed_ms: commit time of the end, if it is that of the range.
    """

    first: str | None
    end: str
    log: str
    began: str | None = None
    closed_ms: int | None = None


def split(
    first: str | None, end: str, cuts: Iterable[tuple[str, int]], events_max: int
) -> Iterator[tuple[str | None, str]]:
    """Split a range at its cuts into parts, which have more than some events only if a cut has.

    Args:
        cuts: closed LSN and number of events of each, in order.
    """
    count = 0
    reached = first or ""
    for lsn, same in groupby(cuts, key=itemgetter(0)):
        events = sum(of for _, of in same)
        if count and count + events > events_max and reached > (first or ""):
            yield first, reached
            first, count = reached, 0
        count += events
        reached = max(reached, min(lsn, end))
    if first is None or first < end:
        yield first, end
