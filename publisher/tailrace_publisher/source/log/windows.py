"""How far one poll reads (pure): bounded by transactions, hand-overs and schema changes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from tailrace_publisher.change.ranges import LsnRange
from tailrace_publisher.source.log.commit_times import Commits
from tailrace_schemas.position.change_position import ChangePosition
from tailrace_schemas.position.lsn import Lsn

_FIRST_TRANSACTIONS: Final = 5_000
_ROWS: Final = 500_000


class WindowSize:
    """How many transactions the next window may have.

    Between two windows nothing is read, so small transactions go many at a time. But between two
    windows is also where signals are heard and the catalog is looked at, so of large ones a window
    has about as many rows as are published in a few seconds.

    Args:
        most: transactions at most.

    Attributes:
        transactions: of the next window at most.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self.transactions = min(most, _FIRST_TRANSACTIONS)

    def learn(self, transactions: int, rows: int) -> None:
        """Take in what a window had; it had at least one transaction."""
        self.transactions = max(1, min(self._most, _ROWS * transactions // max(1, rows)))


@dataclass(frozen=True, slots=True)
class Window:
    """The commits of one poll.

    Attributes:
        span: (our position, last commit of the window].
        first_lsn: first commit of the window: it decides which instance and version are read.
        commit_ms: commit time in milliseconds UTC, by the ten bytes of the commit LSN.
        commits: the commits, in order.
        is_last: whether nothing newer was known when it was planned.
    """

    span: LsnRange
    first_lsn: Lsn
    commit_ms: Mapping[bytes, int]
    commits: Commits
    is_last: bool


def plan_window(
    after: ChangePosition,
    commits: Commits,
    transactions_max: int,
    covers_from: Iterable[Lsn],
    schema_lsns: Iterable[Lsn],
    utc_offset_minutes: int,
) -> Window | None:
    """Cut the known commits so that each table has one instance and one version in the window.

    Args:
        after: our position.
        commits: entries of ``cdc.lsn_time_mapping`` behind the position, in order; at most
            ``transactions_max`` of them.
        transactions_max: bound that the entries were read with.
        covers_from: LSNs from which on newer capture instances hold their tables' changes. A window
            that begins at or before one of them ends there: rows at it still come from the older
            instance.
        schema_lsns: a window that begins before one of these ends before it: rows at the LSN of a
            DDL statement have the new version.
        utc_offset_minutes: how far the server's local time is ahead of UTC now, for commits that do
            not tell their own.

    Returns:
        None when there is no news.
    """
    if not commits:
        return None
    first = Lsn.from_bytes(commits.lsns[0])
    ceiling = min(
        [lsn for lsn in covers_from if lsn >= first]
        + [lsn.decrement() for lsn in schema_lsns if lsn > first],
        default=Lsn.MAX,
    )
    taken = commits.up_to(ceiling)
    return Window(
        span=LsnRange(after, Lsn.from_bytes(taken.lsns[-1])),
        first_lsn=first,
        commit_ms=taken.milliseconds(utc_offset_minutes),
        commits=taken,
        is_last=len(taken) == len(commits) and len(commits) < transactions_max,
    )
