"""The answer of /status: its shape, as JSON and as text.

Both daemons write it, ``tailrace status`` and ``tailrace web`` read it. A field that is not known
is null; new fields may come.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from typing import Any, Final

_ERRORS_KEPT: Final = 20
UNREAD_STATES: Final = frozenset({"pending", "snapshotting", "rereading"})
"""States of a table at the publisher in which rows of its snapshot are still to be read."""
_LARGE_BACKLOG: Final = 10_000
"""Changes from which a backlog is shown while it lasts: fewer are gone before one looks."""


@dataclass(frozen=True, slots=True)
class Failure:
    """An error that a daemon reported.

    Attributes:
        at_ms: time of the report, milliseconds UTC.
        table: the one table that it is of; None where it is of all.
    """

    at_ms: int
    error: str
    reason: str
    table: str | None = None


@dataclass(frozen=True, slots=True)
class TableStatus:
    """One table, at one of the daemons.

    Attributes:
        topic: where its events are; empty where there can be none.
        state: of the publisher: pending, snapshotting, halted, followed, rereading, lost, stopped
            or missing. Halted: its snapshot was stopped, its changes continue. Rereading: followed,
            during a partial snapshot. Of the sink: followed, held (its snapshot is not finished),
            stopped or excluded.
        lsn: up to which it is published, or folded into the lake's table.
        log_lsn: of the sink: up to which the lake's log holds it.
        rows: events committed, or changes that the lake holds, since its topic began; of the
            publisher since this process began.
        snapshot_rows: rows of its snapshot that are published.
        snapshot_bytes: of the values of those rows.
        snapshot_left_s: seconds that its snapshot will still take, by its last chunks; None where
            that cannot be said.
        snapshot_paused: whether its snapshot is paused.
        snapshot_estimate: rows of the source table when its snapshot started, as the server
            estimates them; None where it does not, or where ``snapshot.where`` leaves rows out.
        schema_lsn: of the schema version in force.
        reason: why it is stopped or lost.
    """

    table: str
    topic: str
    state: str
    lsn: str | None = None
    log_lsn: str | None = None
    rows: int | None = None
    snapshot_rows: int | None = None
    snapshot_bytes: int | None = None
    snapshot_left_s: float | None = None
    snapshot_paused: bool = False
    snapshot_estimate: int | None = None
    schema_lsn: str | None = None
    reason: str | None = None


@dataclass(frozen=True, slots=True)
class Backlog:
    """Changes that the sink is carrying into the lake's tables.

    Attributes:
        done: changes that came into the tables since the backlog was last empty.
        left: published changes that are not in the tables.
        per_s: changes a second, over the last minute; None while it is not known.
        left_s: seconds until the backlog is empty at that pace; None while it is not known.
        bytes_per_s: bytes of their values a second; None while it is not known.
    """

    done: int = 0
    left: int = 0
    per_s: float | None = None
    left_s: float | None = None
    bytes_per_s: float | None = None

    @property
    def total(self) -> int:
        """Changes done and left."""
        return self.done + self.left

    @property
    def is_large(self) -> bool:
        """Whether something is left of a backlog that takes a while."""
        return self.left > 0 and self.total >= _LARGE_BACKLOG

    def to_text(self) -> str:
        """How far it is, how fast, and how long it will take, for people."""
        told = f"{self.done:,} of {self.total:,} changes"
        if self.per_s is not None:
            told += f", {self.per_s:,.0f}/s"
        if self.bytes_per_s is not None:
            told += f", {self.bytes_per_s / 1_000_000:,.1f} MB/s"
        if self.left_s is not None:
            told += f", about {_duration(self.left_s)} left"
        return told


@dataclass(frozen=True, slots=True)
class DaemonStatus:
    """One daemon.

    Attributes:
        state: starting, running, paused, retrying, ended, or stopped (of several databases, one
            whose error waiting does not cure).
        since_ms: since when it is in that state, milliseconds UTC.
        now_ms: when this was reported.
        database: the source database; None while the sink does not know it.
        closed_lsn: up to which everything is published, or is in the lake's tables.
        closed_commit_ms: commit time at the source of that LSN, milliseconds UTC.
        log_lsn: of the sink: up to which the lake's log has everything.
        lag_s: lag in seconds of the topics, or of the lake's tables, as far as it is known.
        log_lag_s: of the sink: the same of the log.
        figures: further numbers, by name.
        errors: the last ones, newest first.
    """

    program: str
    state: str
    since_ms: int
    now_ms: int
    prefix: str
    database: str | None = None
    closed_lsn: str | None = None
    closed_commit_ms: int | None = None
    log_lsn: str | None = None
    lag_s: float | None = None
    log_lag_s: float | None = None
    figures: Mapping[str, float | None] = field(default_factory=dict)
    tables: tuple[TableStatus, ...] = ()
    errors: tuple[Failure, ...] = ()
    backlog: Backlog | None = None

    def to_json(self) -> dict[str, Any]:
        """As a JSON object."""
        return asdict(self)

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> DaemonStatus:
        """From a JSON object; fields that are not known are passed over.

        Raises:
            ValueError: it is no status.
        """
        try:
            return cls(
                **{
                    **_known(cls, value),
                    "tables": tuple(
                        TableStatus(**_known(TableStatus, table)) for table in value["tables"]
                    ),
                    "errors": tuple(Failure(**_known(Failure, e)) for e in value["errors"]),
                    "backlog": _backlog(value.get("backlog")),
                }
            )
        except (TypeError, KeyError, AttributeError) as error:
            raise ValueError(f"not the status of a daemon: {error}") from error

    def to_text(self) -> str:
        """For people: a few lines, and one for each table and error."""
        lines = [
            f"{self.program} of {self.database or '?'} under {self.prefix}: {self.state} since"
            f" {_time(self.since_ms)}",
            f"closed LSN {self.closed_lsn or 'none'}"
            + (f", log at {self.log_lsn}" if self.log_lsn else "")
            + f", {_seconds(self.lag_s)} behind",
        ]
        if self.backlog is not None and self.backlog.left:
            lines.append(f"backlog: {self.backlog.to_text()}")
        lines += [f"{name}: {_number(value)}" for name, value in self.figures.items()]
        lines += [_table_line(table) for table in self.tables]
        for failure in self.errors:
            of = f" {failure.table}" if failure.table else ""
            lines.append(f"{_time(failure.at_ms)}{of} {failure.error}: {failure.reason}")
        return "\n".join(lines)


def _backlog(value: Mapping[str, Any] | None) -> Backlog | None:
    return None if value is None else Backlog(**_known(Backlog, value))


def _known(kind: Any, value: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value[name] for name in kind.__dataclass_fields__ if name in value}


def _table_line(table: TableStatus) -> str:
    told = f"{table.table}: {table.state}"
    if table.state in UNREAD_STATES:
        told += f", {snapshot_text(table)}"
    return told + (f", {table.reason}" if table.reason else "")


def snapshot_text(table: TableStatus) -> str:
    """How far the snapshot of a table is, how fast, and how long it will take, for people."""
    told = f"{table.snapshot_rows or 0}"
    told += f" of about {table.snapshot_estimate}" if table.snapshot_estimate else ""
    told += " rows"
    if table.snapshot_bytes:
        told += f", {table.snapshot_bytes / 1_000_000:.1f} MB"
    if table.snapshot_paused:
        told += ", paused"
    elif table.snapshot_left_s is not None:
        rows_left = (table.snapshot_estimate or 0) - (table.snapshot_rows or 0)
        if rows_left > 0 and table.snapshot_left_s > 0:
            told += f", {rows_left / table.snapshot_left_s:.0f} rows/s"
        told += f", about {_duration(table.snapshot_left_s)} left"
    return told


def _duration(seconds: float) -> str:
    if seconds < 120:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 7200 else f"{seconds / 3600:.1f} h"


def _time(at_ms: int) -> str:
    return datetime.fromtimestamp(at_ms / 1000, UTC).isoformat(timespec="seconds")


def _seconds(value: float | None) -> str:
    return "not known how far" if value is None else f"{value:.1f} s"


def _number(value: float | None) -> str:
    return "not known" if value is None else f"{value:g}"


def finite(value: float | None) -> float | None:
    """A number that JSON has; None for one that it has not."""
    return None if value is None or not math.isfinite(value) else value


class LastFailures:
    """The last errors of a daemon; written by its threads, read by those of its endpoint."""

    def __init__(self) -> None:
        self._kept: deque[Failure] = deque(maxlen=_ERRORS_KEPT)

    def add(
        self, at_ms: int, error: Exception | str, reason: str, table: str | None = None
    ) -> None:
        """Keep one; the same as the last one only with its newer time."""
        kind = error if isinstance(error, str) else type(error).__name__
        failure = Failure(at_ms, kind, reason, table)
        last = self._kept[-1] if self._kept else None
        if last is not None and (last.error, last.reason, last.table) == (kind, reason, table):
            self._kept[-1] = failure
        else:
            self._kept.append(failure)

    def newest_first(self) -> tuple[Failure, ...]:
        """All that are kept."""
        return tuple(reversed(tuple(self._kept)))


def by_name(tables: Iterable[TableStatus]) -> tuple[TableStatus, ...]:
    """Tables in the order of their names."""
    return tuple(sorted(tables, key=lambda table: table.table.casefold()))
