"""How far one poll reads (pure): bounded by transactions, hand-overs and schema changes."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Final

from tailrace_publisher.change.ranges import LsnRange
from tailrace_publisher.source.log.commit_times import Commits
from tailrace_schemas.position.change_position import ChangePosition
from tailrace_schemas.position.lsn import Lsn

_FIRST_TRANSACTIONS: Final = 5_000
_ROWS: Final = 500_000


class WindowSize:
    """How many transactions the next window may have.

    Between two windows nothing is read, so a window has many small transactions. But signals are
    handled and the catalog is checked only between two windows. So a window of large transactions
    has about as many rows as are published in a few seconds.

    Args:
        most: the highest number of transactions.

    Attributes:
        transactions: the limit of the next window.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self.transactions = min(most, _FIRST_TRANSACTIONS)

    def learn(self, transactions: int, rows: int) -> None:
        """Learn from a window; it had at least one transaction."""
        self.transactions = max(1, min(self._most, _ROWS * transactions // max(1, rows)))


@dataclass(frozen=True, slots=True)
class Window:
    """The commits of one poll.

    Attributes:
        first_lsn: first commit, which decides the instance and version to read.
        commit_ms: milliseconds UTC by the bytes of the commit LSN.
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

    A window that starts at or before an LSN of ``covers_from`` ends there, because rows at it still
    come from the older instance. A window that starts before an LSN of ``schema_lsns`` ends before
    it, because rows at that LSN have the new version.

    Args:
        commits: entries of ``cdc.lsn_time_mapping`` after the position, in order.
        transactions_max: the limit with which they were read.
        covers_from: LSNs from which newer capture instances hold their tables' changes. The rows
            before come from the older ones.
        schema_lsns: LSNs of DDL statements that started a version.
        utc_offset_minutes: how far the server's local time is ahead of UTC. It is used for commits
            without an offset.

    Returns:
        None if there is no news.
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
    # What shows that the newest entry is complete, if it only marks time, is a scan session.
    is_newest = len(taken) == len(commits) < transactions_max
    return Window(
        span=LsnRange(
            after, Lsn.from_bytes(taken.lsns[-1]), taken.last_commit if is_newest else None
        ),
        first_lsn=first,
        commit_ms=taken.milliseconds(utc_offset_minutes),
        commits=taken,
        is_last=is_newest,
    )


def seen_by_readers(
    window: Window, names: Collection[str], ask: Callable[[Lsn, Lsn], Collection[str]]
) -> Window:
    """Let readers see all of a window that has rows after its last commit.

    A mark of time may have the LSN of a commit that was captured after it. The mapping then has the
    mark alone, which no reader has to see (``LsnRange.needs``).

    Args:
        names: of the capture instances with rows in the window.
        ask: returns them for a first and a last LSN.
    """
    span = window.span
    if not names or span.needs is None or span.needs >= span.up_to:
        return window
    has_late = span.needs < span.first_lsn or ask(span.needs.increment(), span.up_to)
    return replace(window, span=replace(span, needs=None)) if has_late else window
