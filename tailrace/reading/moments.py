"""Moments as people type them: an LSN, or a time of the source's commits."""

from __future__ import annotations

from dataclasses import dataclass

from tailrace_schemas.position.commit_time import milliseconds, time_of_text
from tailrace_schemas.position.lsn import Lsn
from tailrace_schemas.records.progress import Progress


class MomentError(ValueError):
    """A text that is no moment; its words say what would be."""


@dataclass(frozen=True, slots=True)
class Moment:
    """A place in the stream of commits; at least one of the two is None.

    Attributes:
        time_ms: a commit time, milliseconds UTC.
    """

    lsn: Lsn | None = None
    time_ms: int | None = None

    @classmethod
    def parse(cls, lsn: str | None, time: str | None) -> Moment:
        """A moment of one of the two texts; of neither, the beginning.

        Args:
            lsn: xxxxxxxx:xxxxxxxx:xxxx, or binary(10) as 0x and twenty digits.
            time: ISO 8601; without an offset it is UTC.

        Raises:
            MomentError: it is none, or there are two.
        """
        if lsn is not None and time is not None:
            raise MomentError("there is an LSN and a time. Fix: give one of the two")
        if lsn is not None:
            return cls(lsn=parse_lsn(lsn))
        if time is None:
            return cls()
        try:
            return cls(time_ms=milliseconds(time_of_text(time)))
        except ValueError as error:
            raise MomentError(str(error)) from error

    def is_after(self, record: Progress) -> bool:
        """Whether the moment is after all changes of a progress record and of those before it.

        A record inside an unfinished transaction has changes after its closed LSN.
        """
        if not record.closed:
            return False
        if self.lsn is not None:
            return record.closed_lsn < str(self.lsn)
        if self.time_ms is not None:
            return record.closed_commit_ms is not None and record.closed_commit_ms < self.time_ms
        return False

    def has_reached(self, commit_lsn: Lsn, commit_ms: int | None) -> bool:
        """Whether a change is at the moment or after it."""
        if self.lsn is not None:
            return commit_lsn >= self.lsn
        return self.time_ms is None or commit_ms is None or commit_ms >= self.time_ms


def parse_moment(text: str) -> Moment:
    """A moment of a text that may be either an LSN or a time.

    Raises:
        MomentError: the text is neither an LSN nor a time.
    """
    try:
        return Moment(lsn=parse_lsn(text))
    except MomentError as error:
        try:
            return Moment.parse(None, text)
        except MomentError as other:
            raise MomentError(f"{error}; and {other}") from other


def parse_lsn(text: str) -> Lsn:
    """An LSN of one of its two text forms.

    Raises:
        MomentError: the text is no LSN.
    """
    try:
        return Lsn.of_text(text)
    except ValueError as error:
        raise MomentError(str(error)) from error
