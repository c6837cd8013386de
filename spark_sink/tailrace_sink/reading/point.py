"""Points of the source at which a lake is read, as people write them. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final, Self

from tailrace_schemas.position.commit_time import milliseconds, time_of_text
from tailrace_schemas.position.lsn import Lsn
from tailrace_schemas.records.progress import Progress
from tailrace_sink.reading.cut_errors import PointInvalid
from tailrace_sink.reading.cut_id import CutId

LATEST: Final = "latest"


@dataclass(frozen=True, slots=True)
class Point:
    """The point up to which to read; without values, the newest one.

    Attributes:
        lsn: source LSN as text.
        commit_ms: source commit time, milliseconds UTC.
        batch: of the log, with an LSN: what later batches brought is left out. None: the first one
            that closes the LSN.
    """

    lsn: str | None = None
    commit_ms: int | None = None
    batch: int | None = None

    @classmethod
    def of(cls, when: str, lsn: str | None, time: datetime | str | None) -> Self:
        """Return the point that a call of ``as_of`` names.

        Raises:
            PointInvalid: it names two, or none that is understood.
        """
        if when != LATEST:
            raise PointInvalid(
                f"as_of({when!r}) is no point. Fix: write as_of('latest'), as_of(lsn=...) or"
                " as_of(time=...)"
            )
        if lsn is not None and time is not None:
            raise PointInvalid("as_of has an LSN and a time. Fix: give one of the two")
        if lsn is not None:
            found = _cut_id(lsn)
            return cls(lsn=found.lsn, batch=found.batch)
        return cls() if time is None else cls(commit_ms=milliseconds(_time(time)))

    @property
    def phrase(self) -> str:
        """What an error says of the point, after its noun; empty for the newest one."""
        if self.lsn is not None:
            return f" at or before LSN {CutId(self.lsn, self.batch)}"
        if self.commit_ms is not None:
            return f" at or before {datetime.fromtimestamp(self.commit_ms / 1000, UTC)}"
        return ""

    def has(self, closed_lsn: str, commit_ms: int | None) -> bool:
        """Whether a closed LSN is at or before the point."""
        if self.lsn is not None and closed_lsn > self.lsn:
            return False
        return self.commit_ms is None or (commit_ms is not None and commit_ms <= self.commit_ms)

    def is_before(self, closed_lsn: str, commit_ms: int | None) -> bool:
        """Whether a closed LSN is past the point: the rest of the log is later."""
        if self.lsn is not None and closed_lsn >= self.lsn:
            return True
        return self.commit_ms is not None and commit_ms is not None and commit_ms > self.commit_ms

    def is_closed_by(self, record: Progress) -> bool:
        """Whether a progress record closes the LSN of the point."""
        return self.lsn is not None and record.closed and record.closed_lsn >= self.lsn

    def may_be_in(self, least: Mapping[str, Any]) -> bool:
        """Whether a file of the commit table, with its columns' least values, may have a row."""
        lsn, time = (least.get(of) for of in ("through_lsn", "through_commit_time"))
        if self.lsn is not None and lsn is not None and str(lsn) > self.lsn:
            return False
        if self.commit_ms is None or time is None:
            return True
        return milliseconds(datetime.fromisoformat(time)) <= self.commit_ms


def lsn_or_time(point: str | datetime) -> str | datetime:
    """Return an LSN or the id of a cut in its text form, or a time, of what a person writes.

    Raises:
        PointInvalid: the text has another form.
    """
    if isinstance(point, datetime):
        return point
    with suppress(PointInvalid):
        return str(_cut_id(point))
    with suppress(PointInvalid):
        return _time(point)
    raise PointInvalid(
        f"{point!r} is neither an LSN nor a time. Fix: write xxxxxxxx:xxxxxxxx:xxxx, or 0x and"
        " twenty hexadecimal digits, or a time as in 2026-11-22T14:05:00+01:00"
    )


def _cut_id(text: str) -> CutId:
    try:
        lsn, at, batch = str(text).strip().partition("@")
        found = str(Lsn.of_text(lsn))
    except ValueError as error:
        raise PointInvalid(str(error)) from error
    if at and not batch.isdecimal():
        raise PointInvalid(
            f"{text!r} is no id of a cut. Fix: write it as cut.id shows it, or an LSN alone"
        )
    return CutId(found, int(batch) if at else None)


def _time(found: datetime | str) -> datetime:
    try:
        return found if isinstance(found, datetime) else time_of_text(str(found))
    except ValueError as error:
        raise PointInvalid(str(error)) from error
