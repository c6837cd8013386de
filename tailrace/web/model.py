"""What the page shows, at one moment: all parts, put together by table."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field
from functools import cached_property
from typing import Any

from tailrace.lag.freshness import Freshness, TableFreshness
from tailrace.lag.stopped_fix import OF_SINK, TableFix, fix_of
from tailrace.lag.verdict import DaemonFact, Facts, StageFact, Verdict, verdict
from tailrace.reading.stopped_tables import PublisherNotes, TableNote
from tailrace.web.strip import Bucket
from tailrace_service.status import (
    UNREAD_STATES,
    DaemonStatus,
    Failure,
    TableStatus,
    snapshot_text,
)

_BAD = frozenset({"stopped", "halted", "lost", "missing"})
_OUT_OF_CUT = "in snapshot or stopped"
_UNREAD = UNREAD_STATES | {"held", _OUT_OF_CUT}
_NOT_PUBLISHED = "not published"
_NOTED = {"stopped": "stopped", "snapshot stopped": "halted"}
"""The state that a note of the checkpoint means; any other is of a snapshot."""


@dataclass(frozen=True, slots=True)
class Row:
    """One table.

    Attributes:
        state: what an operator has to know of it, in one word.
        reason: why it is stopped; else empty.
        newest_lsn, newest_ms: of its newest captured change: commit LSN, and commit time in
            milliseconds UTC.
        topic_s, log_s, lake_s: lag in seconds; None if it is not known, or if the table is in its
            snapshot or stopped.
        rows: events published in the last hours.
        snapshot_rows: published rows of its snapshot; None if none is running.
        snapshot_estimate: rows that it will have, about.
        snapshot_told: both in words, with bytes and time left; empty without a snapshot.
        schema_lsn: of its schema version.
    """

    table: str
    state: str
    reason: str
    newest_lsn: str | None
    newest_ms: int | None
    topic_s: float | None
    log_s: float | None
    lake_s: float | None
    rows: int
    snapshot_rows: int | None
    snapshot_estimate: int | None
    snapshot_told: str
    schema_lsn: str | None

    @property
    def lag_s(self) -> float:
        """The lag of its last stage that is known, in seconds; 0.0 if none is."""
        known = [lag for lag in (self.topic_s, self.log_s, self.lake_s) if lag is not None]
        return max(known, default=0.0)

    @property
    def is_bad(self) -> bool:
        """Whether an operator has to act."""
        return self.state in _BAD

    @property
    def fix(self) -> TableFix:
        """What to do if it is bad."""
        return fix_of(self.table, self.state, self.reason)

    @property
    def is_unread(self) -> bool:
        """Whether its snapshot is not over."""
        return self.state in _UNREAD


@dataclass(frozen=True)
class Model:
    """Everything at one moment.

    Attributes:
        freshness: of all stages and tables.
        publisher, sink: what they report; None if they are not watched, or do not answer.
        rows: the tables: first those that need an operator, then by name.
        strip: the ledger of the last hours.
        problems: by part, what kept it from answering.
        has_lake: whether one is configured.
        watched: those of ``publisher`` and ``sink`` that are queried.
        heartbeat_s: how often an idle publisher writes a progress record.
        is_paused: whether the checkpoints of a publisher that does not answer say so.
        since_ms: since when the verdict's state is what it is, milliseconds UTC; None: since before
            the first look.
    """

    freshness: Freshness
    publisher: DaemonStatus | None = None
    sink: DaemonStatus | None = None
    rows: tuple[Row, ...] = ()
    strip: tuple[tuple[int, Bucket], ...] = ()
    problems: Mapping[str, str] = field(default_factory=dict)
    has_lake: bool = False
    watched: tuple[str, ...] = ()
    heartbeat_s: float = 10.0
    is_paused: bool = False
    since_ms: int | None = None

    @cached_property
    def verdict(self) -> Verdict:
        """Whether all is well, from everything that was seen; judged once."""
        return verdict(self.facts)

    @property
    def facts(self) -> Facts:
        """What the verdict depends on."""
        fresh, published_ms = self.freshness, self.freshness.published_ms
        daemons = {"publisher": self.publisher, **({"sink": self.sink} if self.has_lake else {})}
        return Facts(
            daemons=[
                DaemonFact(name, None if of is None else of.state, name in self.watched)
                for name, of in daemons.items()
            ],
            stages=list(self._stages()),
            record_age_s=None if published_ms is None else (fresh.at_ms - published_ms) / 1000,
            heartbeat_s=self.heartbeat_s,
            capture_age_s=fresh.capture_age_s,
            capture_error=fresh.capture_error,
            known_age_s=fresh.stages["topics"].age_s if "topics" in fresh.stages else None,
            tables=len(self.rows),
            stopped={row.table: row.fix for row in self.rows if row.is_bad},
            unpublished=[row.table for row in self.rows if row.state == _NOT_PUBLISHED],
            unread=sum(row.is_unread for row in self.rows),
            is_paused=self.is_paused,
            until_loss_s=fresh.until_loss_s,
            retention_s=fresh.retention_s,
            figures={} if self.publisher is None else self.publisher.figures,
            broken=sum(len(bucket.broken) for _, bucket in self.strip),
            problems=self.problems,
        )

    def _stages(self) -> Iterator[StageFact]:
        for name, stage in self.freshness.stages.items():
            if name == "captured":
                # Only the age shows whether the login may see the job's figures.
                if stage.lag_s is not None:
                    yield StageFact(name, stage.lag_s)
            elif name != "topics" or stage.lsn is not None:  # without: there is no progress record
                yield StageFact(name, stage.lag_s, has_begun=stage.lsn is not None)

    @property
    def errors(self) -> list[tuple[str, Failure]]:
        """The last errors of both daemons, newest first, each with its program."""
        daemons = [daemon for daemon in (self.publisher, self.sink) if daemon is not None]
        found = [(daemon.program, failure) for daemon in daemons for failure in daemon.errors]
        return sorted(found, key=lambda told: -told[1].at_ms)

    def to_json(self) -> dict[str, Any]:
        """As a JSON object."""
        return asdict(self) | {"verdict": self.verdict.to_json()}


def put_together(
    freshness: Freshness,
    publisher: DaemonStatus | None,
    sink: DaemonStatus | None,
    notes: PublisherNotes,
) -> tuple[Row, ...]:
    """The tables that any part knows.

    Args:
        freshness: of source, topics and lake.
        publisher: its status; None if it does not answer.
        notes: from the checkpoints; for the tables of which no publisher reports.
    """
    fresh = {table.table.casefold(): table for table in freshness.tables}
    published = _by_table(publisher)
    sunk = _by_table(sink)
    noted = {table.casefold(): note for table, note in notes.tables.items()}
    if publisher is not None and publisher.tables:
        # It lists all that it publishes.
        for name in fresh.keys() - published.keys():
            published[name] = TableStatus(fresh[name].table, "", _NOT_PUBLISHED)
    names = {t.table.casefold(): t.table for t in (*sunk.values(), *published.values())}
    names |= {name: table.table for name, table in fresh.items()}
    if "source" in freshness.problems:  # else a note may be of a table that is not captured now
        names = {table.casefold(): table for table in notes.tables} | names
    rows = [
        _row(table, fresh.get(name), published.get(name), sunk.get(name), noted.get(name))
        for name, table in names.items()
    ]
    return tuple(sorted(rows, key=lambda r: (not r.is_bad, not r.is_unread, r.table.casefold())))


def _by_table(status: DaemonStatus | None) -> dict[str, TableStatus]:
    return {} if status is None else {t.table.casefold(): t for t in status.tables}


def _row(
    table: str,
    fresh: TableFreshness | None,
    published: TableStatus | None,
    sunk: TableStatus | None,
    noted: TableNote | None,
) -> Row:
    state, reason = _state(fresh, published, sunk, noted)
    is_read = published is not None and published.state in _UNREAD
    in_cut = fresh if fresh is not None and fresh.in_cut and state != _NOT_PUBLISHED else None
    return Row(
        table=table,
        state=state,
        reason=reason,
        newest_lsn=None if fresh is None else fresh.newest_lsn,
        newest_ms=None if fresh is None else fresh.newest_ms,
        topic_s=None if in_cut is None else in_cut.topic_s,
        log_s=None if in_cut is None else in_cut.log_s,
        lake_s=None if in_cut is None or in_cut.stopped is not None else in_cut.lake_s,
        rows=0,
        snapshot_rows=published.snapshot_rows if published is not None and is_read else None,
        snapshot_estimate=published.snapshot_estimate if published is not None else None,
        snapshot_told=snapshot_text(published) if published is not None and is_read else "",
        schema_lsn=None if published is None else published.schema_lsn,
    )


def _state(
    fresh: TableFreshness | None,
    published: TableStatus | None,
    sunk: TableStatus | None,
    noted: TableNote | None,
) -> tuple[str, str]:
    """The gravest of what the parts say."""
    if published is not None and published.state in _BAD:
        return published.state, f"publisher: {published.reason or 'not reported'}"
    if published is None and noted is not None and noted.state in _NOTED:
        return _NOTED[noted.state], noted.told
    if sunk is not None and sunk.state in _BAD:
        return sunk.state, f"{OF_SINK}{sunk.reason or 'not reported'}"
    if sunk is None and fresh is not None and fresh.stopped is not None:
        return "stopped", f"{OF_SINK}{fresh.stopped}"
    if published is not None and published.state in (_NOT_PUBLISHED, "found"):
        return _NOT_PUBLISHED, ""
    if published is not None and published.state in _UNREAD:
        return published.state, ""
    if published is None and noted is not None:
        return "snapshotting", noted.told or noted.state
    if sunk is not None and sunk.state != "followed":
        return sunk.state, ""
    if published is not None:
        return published.state, ""
    if fresh is not None and not fresh.in_cut:
        return _OUT_OF_CUT, ""
    return "followed" if fresh is not None else "not captured", ""
