"""Where a subscription begins, and its place in the progress topic."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import datetime
from enum import Enum
from typing import Final, Self

from tailrace.reading.moments import Moment, parse_lsn
from tailrace.subscribe.bookmark import Place
from tailrace.subscribe.errors import LsnNotRetained, PlaceUnknown
from tailrace_schemas.position.lsn import Lsn
from tailrace_schemas.records.progress import Progress


class Kind(Enum):
    """What a start is."""

    BEGINNING = "beginning"
    NOW = "now"
    MOMENT = "moment"
    SNAPSHOT = "snapshot"


@dataclass(frozen=True, slots=True)
class Start:
    """Where a subscription begins that has no bookmark yet."""

    kind: Kind
    moment: Moment = field(default_factory=Moment)

    @classmethod
    def beginning(cls) -> Self:
        """With the oldest events that the topics hold."""
        return cls(Kind.BEGINNING)

    @classmethod
    def now(cls) -> Self:
        """With the first event after the newest closed LSN."""
        return cls(Kind.NOW)

    @classmethod
    def from_lsn(cls, lsn: str | Lsn) -> Self:
        """With the first change whose commit LSN is at or after one.

        Raises:
            MomentError: the text is no LSN.
        """
        return cls(Kind.MOMENT, Moment(lsn=lsn if isinstance(lsn, Lsn) else parse_lsn(lsn)))

    @classmethod
    def from_time(cls, time: str | datetime) -> Self:
        """With the first change that was committed at or after a time; UTC without a zone.

        Raises:
            MomentError: the text is no time of ISO 8601.
        """
        text = time if isinstance(time, str) else time.isoformat()
        return cls(Kind.MOMENT, Moment.parse(None, text))

    @classmethod
    def from_snapshot(cls) -> Self:
        """With the newest snapshot of each table: its rows, then all changes since."""
        return cls(Kind.SNAPSHOT)


Record = tuple[int, Progress]
"""Offset and progress record."""


@dataclass(frozen=True, slots=True)
class ProgressLog:
    """The progress topic.

    Attributes:
        high: the offset after its last record.
        read: yields the records from an offset to the end.
    """

    low: int
    high: int
    read: Callable[[int], Iterator[Record]]

    def closing_before(self, offset: int) -> Record | None:
        """The last record before an offset that closes an LSN; None if none is held."""
        step = _STEP
        end = offset
        while end > self.low:
            begin = max(self.low, end - step)
            found: Record | None = None
            for at, record in self.read(begin):
                if at >= end:
                    break
                if record.closed:
                    found = (at, record)
            if found is not None:
                return found
            end, step = begin, step * 4
        return None

    def first_where(
        self, holds: Callable[[Progress], bool], speaks: Callable[[Progress], bool]
    ) -> int:
        """The offset of the first record from which on a condition holds, by bisection.

        Args:
            speaks: whether the condition can be asked of a record.
        """
        low, high = self.low, self.high
        while low < high:
            middle = (low + high) // 2
            found = next((record for record in self.read(middle) if speaks(record[1])), None)
            if found is None or holds(found[1]):
                high = middle
            else:
                low = found[0] + 1
        return low


_STEP: Final = 8


def place_after(record: Record) -> Place:
    """The place after a record that closes an LSN."""
    offset, progress = record
    return Place(offset + 1, progress.closed_lsn, frozenset(progress.snapshotting))


def begin_at(start: Start, log: ProgressLog) -> Place:
    """The place of a moment, or of now.

    Raises:
        LsnNotRetained: the records of that moment are gone.
    """
    if start.kind is Kind.NOW:
        newest = log.closing_before(log.high)
        return Place(log.low) if newest is None else place_after(newest)
    if start.kind is Kind.MOMENT:
        before = log.closing_before(_group_of(start.moment, log))
        if before is not None:
            return place_after(before)
    return oldest(log, is_asked=start.kind is Kind.MOMENT)


def _group_of(moment: Moment, log: ProgressLog) -> int:
    """The offset of a record of the group with a moment; of the end, if it is later."""
    lsn, time_ms = moment.lsn, moment.time_ms
    if lsn is not None:
        return log.first_where(lambda record: record.closed_lsn >= str(lsn), lambda _: True)
    return log.first_where(
        lambda record: (record.closed_commit_ms or 0) >= (time_ms or 0),
        lambda record: record.closed and record.closed_commit_ms is not None,
    )


def oldest(log: ProgressLog, *, is_asked: bool) -> Place:
    """The first place of which no record is missing.

    Raises:
        LsnNotRetained: a moment was asked for, and records before that place are gone.
    """
    if log.low == 0:
        return Place(0)
    first = next((found for found in log.read(log.low) if found[1].closed), None)
    if not is_asked:
        return Place(log.low) if first is None else place_after(first)
    oldest = "" if first is None else f" (the oldest is after LSN {first[1].closed_lsn})"
    raise LsnNotRetained(
        f"the progress topic no longer holds the records of that moment{oldest}. Fix: begin with a"
        " later one, with Start.beginning(), or with Start.from_snapshot()"
    )


def resume(place: Place, log: ProgressLog) -> Place:
    """A place that was stored, compared with the topic.

    Raises:
        LsnNotRetained: records after it are gone.
        PlaceUnknown: the topic is another one than it was stored for.
    """
    if place.offset < log.low:
        raise LsnNotRetained(
            f"the stored place is at offset {place.offset}, the progress topic begins"
            f" at {log.low}: retention removed what was published meanwhile. Fix: begin with"
            " Start.from_snapshot() and without the bookmark; raise retention.ms"
        )
    before = log.closing_before(place.offset)
    if place.offset > log.high or (
        before is not None and place.lsn is not None and before[1].closed_lsn != place.lsn
    ):
        raise PlaceUnknown(
            f"the stored place (offset {place.offset}, LSN {place.lsn}) is not"
            " in the progress topic: the topics were created again, or it is another cluster. Fix:"
            " begin with Start.from_lsn(...) or Start.from_snapshot(), without the bookmark"
        )
    if place.lsn is None and before is not None:  # offsets of a group say no more
        return place_after((place.offset - 1, before[1]))
    return place
