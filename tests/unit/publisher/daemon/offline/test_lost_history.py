"""Which progress records a database has, by the times that their records name."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from tailrace_publisher.daemon.offline import lost_history
from tailrace_publisher.source.log.commit_times import CommitTime
from tailrace_publisher.source.log.identity import Continuity
from tailrace_schemas.position.lsn import Lsn
from tailrace_schemas.records.progress import PartitionProgress, Progress

EPOCH = datetime(2013, 1, 1)  # noqa: DTZ001 - the server's local time
EPOCH_MS = int(EPOCH.replace(tzinfo=UTC).timestamp()) * 1000


def lsn(number: int) -> Lsn:
    return Lsn(1, 2, number)


def record(number: int, after: int, ms: int, *, events: int = 0, closed: bool = True) -> Progress:
    parts = [PartitionProgress("t", 0, 0, events, events, 0)] if events else []
    at = EPOCH_MS + ms if closed else None
    shown = str(lsn(number))
    return Progress(0, "s", "db", str(lsn(after)), shown, at, closed, 0, parts)


def kept(records: list[Progress], has: dict[int, int], monkeypatch: pytest.MonkeyPatch) -> Any:
    """The last kept record of a database with these commits: milliseconds by number."""

    def continuity(_: object, wanted: Lsn) -> Continuity:
        commits = {
            lsn(number): CommitTime(lsn(number), EPOCH + timedelta(milliseconds=ms), b"\x01")
            for number, ms in has.items()
        }
        return Continuity(commits.get(wanted), lsn(0))

    monkeypatch.setattr(lost_history, "continuity", continuity)
    return lost_history._last_kept(None, records, lsn(99))  # type: ignore[arg-type]


HISTORY = [
    record(1, 1, 1500),
    record(1, 1, 1600),
    record(2, 1, 2000, events=1),
    record(2, 2, 2500),
    record(2, 2, 2600, events=1),  # rows of a snapshot
    record(2, 2, 2700),
    record(2, 2, 0, events=1, closed=False),  # in a large transaction
    record(3, 2, 4000, events=1),
    record(3, 3, 4500),
]


def test_heartbeats_with_later_times_do_not_hide_a_commit(monkeypatch: pytest.MonkeyPatch) -> None:
    assert kept(HISTORY, {1: 1000, 2: 2000}, monkeypatch) == (5, True)


def test_another_commit_at_the_lsn_is_no_proof(monkeypatch: pytest.MonkeyPatch) -> None:
    assert kept(HISTORY, {1: 1000, 2: 2001}, monkeypatch) == (-1, False)
    assert kept(HISTORY, {1: 1600, 2: 2001}, monkeypatch) == (1, True)
