"""What the page shows, at one moment: all parts, put together by table."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from tailrace.freshness import Freshness, TableFreshness
from tailrace.web.strip import Bucket
from tailrace_schemas.daemon_status import (
    UNREAD_STATES,
    DaemonStatus,
    Failure,
    TableStatus,
    snapshot_text,
)

_BAD = frozenset({"stopped", "halted", "lost", "missing"})
_UNREAD = UNREAD_STATES | {"held"}


@dataclass(frozen=True, slots=True)
class Row:
    """One table.

    Attributes:
        table: schema.table.
        state: what an operator has to know of it, in one word.
        reason: why it is stopped; else empty.
        newest_lsn: of its newest captured change.
        topic_s, log_s, lake_s: seconds behind that change; None where it is not known.
        rows: events published in the last hours.
        snapshot_rows: rows of its snapshot that are out; None where none is being taken.
        snapshot_estimate: rows that it will have, about.
        snapshot_told: both in words, with the bytes and the time that is left; empty where none is.
        schema_lsn: of its schema version.
    """

    table: str
    state: str
    reason: str
    newest_lsn: str | None
    topic_s: float | None
    log_s: float | None
    lake_s: float | None
    rows: int
    snapshot_rows: int | None
    snapshot_estimate: int | None
    snapshot_told: str
    schema_lsn: str | None

    @property
    def is_bad(self) -> bool:
        """Whether somebody has to do something."""
        return self.state in _BAD

    @property
    def is_unread(self) -> bool:
        """Whether its snapshot is not over."""
        return self.state in _UNREAD


@dataclass(frozen=True, slots=True)
class Model:
    """Everything at one moment.

    Attributes:
        freshness: of all joints and tables.
        publisher, sink: what they tell; None where they are not asked, or do not answer.
        rows: the tables: those that need somebody first, then by name.
        strip: the ledger of the last hours.
        problems: by part, what kept it from answering.
        has_lake: whether one is configured.
    """

    freshness: Freshness
    publisher: DaemonStatus | None = None
    sink: DaemonStatus | None = None
    rows: tuple[Row, ...] = ()
    strip: tuple[tuple[int, Bucket], ...] = ()
    problems: Mapping[str, str] = field(default_factory=dict)
    has_lake: bool = False

    @property
    def errors(self) -> list[tuple[str, Failure]]:
        """The last errors of both daemons, newest first, each with its program."""
        daemons = [daemon for daemon in (self.publisher, self.sink) if daemon is not None]
        found = [(daemon.program, failure) for daemon in daemons for failure in daemon.errors]
        return sorted(found, key=lambda told: -told[1].at_ms)

    def to_json(self) -> dict[str, Any]:
        """As a JSON object."""
        return asdict(self)


def put_together(
    freshness: Freshness,
    publisher: DaemonStatus | None,
    sink: DaemonStatus | None,
    rows_of: Mapping[str, int],
) -> tuple[Row, ...]:
    """The tables that any part knows.

    Args:
        freshness: what source, topics and lake tell.
        publisher: what it tells.
        sink: what it tells.
        rows_of: events of the last hours, by table.
    """
    fresh = {table.table.casefold(): table for table in freshness.tables}
    published = _by_table(publisher)
    sunk = _by_table(sink)
    rows = [
        _row(fresh.get(name), published.get(name), sunk.get(name), rows_of)
        for name in {*fresh, *published, *sunk}
    ]
    return tuple(sorted(rows, key=lambda r: (not r.is_bad, not r.is_unread, r.table.casefold())))


def _by_table(status: DaemonStatus | None) -> dict[str, TableStatus]:
    return {} if status is None else {t.table.casefold(): t for t in status.tables}


def _row(
    fresh: TableFreshness | None,
    published: TableStatus | None,
    sunk: TableStatus | None,
    rows_of: Mapping[str, int],
) -> Row:
    state, reason = _state(fresh, published, sunk)
    name = next(part.table for part in (fresh, published, sunk) if part is not None)
    is_read = published is not None and published.state in _UNREAD
    return Row(
        table=name,
        state=state,
        reason=reason,
        newest_lsn=None if fresh is None else fresh.newest_lsn,
        topic_s=None if fresh is None else fresh.topic_s,
        log_s=None if fresh is None else fresh.log_s,
        lake_s=None if fresh is None else fresh.lake_s,
        rows=rows_of.get(name.casefold(), 0),
        snapshot_rows=published.snapshot_rows if published is not None and is_read else None,
        snapshot_estimate=published.snapshot_estimate if published is not None else None,
        snapshot_told=snapshot_text(published) if published is not None and is_read else "",
        schema_lsn=None if published is None else published.schema_lsn,
    )


def _state(
    fresh: TableFreshness | None, published: TableStatus | None, sunk: TableStatus | None
) -> tuple[str, str]:
    """The gravest of what the parts say."""
    if published is not None and published.state in _BAD:
        return published.state, f"publisher: {published.reason or 'not told'}"
    if sunk is not None and sunk.state in _BAD:
        return sunk.state, f"sink: {sunk.reason or 'not told'}"
    if sunk is None and fresh is not None and fresh.stopped is not None:
        return "stopped", f"sink: {fresh.stopped}"
    if published is not None and published.state in _UNREAD:
        return published.state, ""
    if sunk is not None and sunk.state != "followed":
        return sunk.state, ""
    if published is not None:
        return published.state, ""
    if fresh is not None and not fresh.in_cut:
        return "in snapshot or stopped", ""
    return "followed" if fresh is not None else "not captured", ""
