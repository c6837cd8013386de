"""Query the source: the newest change of each table, and the lag of the capture job."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from tailrace_publisher.daemon.session.capture_job_watch import failed_scan, latency_s, scan_age_s
from tailrace_publisher.errors import PermissionMissing
from tailrace_publisher.options.publisher_config import PublisherConfig
from tailrace_publisher.ports import Connection
from tailrace_publisher.source.catalog import capture_catalog as catalog
from tailrace_publisher.source.connection.connection import OdbcConnection
from tailrace_publisher.source.connection.quoting import quote_text
from tailrace_publisher.source.log import queries
from tailrace_publisher.source.log.cdc_jobs import retention_s
from tailrace_publisher.source.log.commit_times import utc_offset_minutes
from tailrace_publisher.source.log.scan_sessions import scan_sessions
from tailrace_schemas.position.lsn import Lsn, lsn_text
from tailrace_schemas.topics.topic_names import TableName
from tailrace_service.status import finite

_AT_ONCE: Final = 100
"""Change tables asked by one statement."""
_UP_TO: Final = "start_lsn <= ? ORDER BY start_lsn DESC"
"""Finds the newest commit up to an LSN."""
_AFTER: Final = "start_lsn > ? AND tran_id <> 0x00 ORDER BY start_lsn"
"""Finds the first captured transaction after an LSN; 0x00 has an entry that only marks time."""


@dataclass(frozen=True, slots=True)
class Newest:
    """The newest change of a table that is captured.

    Attributes:
        lsn: its commit LSN as text; None while there is none.
        commit_ms: its commit time, milliseconds UTC; None where it is not known.
    """

    lsn: str | None
    commit_ms: int | None
    instances: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class SourceState:
    """The source at one moment.

    Attributes:
        max_lsn: newest captured commit; None before any.
        max_lsn_ms: its time, milliseconds UTC.
        capture_latency_s: seconds by which the capture job lags the log; None if the login may not
            see it.
        capture_age_s: seconds since its newest scan without an error.
        capture_error: the newest error, if its newest scan failed.
        retention_s: how long the source keeps change rows; None: the login may not see it.
        times_ms: commit times of the requested LSNs, milliseconds UTC.
        waiting_ms: of the same LSNs: commit time of the first captured transaction after each.
    """

    max_lsn: str | None
    max_lsn_ms: int | None
    capture_latency_s: float | None
    capture_age_s: float | None
    retention_s: float | None
    newest: dict[TableName, Newest] = field(default_factory=dict)
    times_ms: dict[str, int] = field(default_factory=dict)
    waiting_ms: dict[str, int] = field(default_factory=dict)
    capture_error: str | None = None


def read_source(config: PublisherConfig, lsns: Sequence[str] = ()) -> SourceState:
    """Ask the source; one statement for a hundred tables.

    Args:
        config: says where, and which tables.
        lsns: of stages; see ``times_ms`` and ``waiting_ms``.

    Raises:
        SourceError: it does not answer, or refuses.
    """
    with OdbcConnection(config.source) as connection:
        offset = timedelta(minutes=utc_offset_minutes(connection))
        tables: dict[TableName, list[str]] = {}
        for row in catalog.change_tables(connection):
            name = TableName(config.source.database, row.schema, row.table)
            if config.tables.selects(name):
                tables.setdefault(name, []).append(row.instance)
        latency, age, error = _capture(connection)
        retention = retention_s(connection)
        newest = _newest_lsns(connection, [i for found in tables.values() for i in found])
        highest = queries.max_lsn(connection)
        known = {lsn for lsn in newest.values() if lsn is not None}
        all_lsns = sorted({*known, *lsns, *([str(highest)] if highest else [])})
        times = _times(connection, _UP_TO, all_lsns)
        waiting = _times(connection, _AFTER, sorted({*lsns}))
    of_table = {}
    times_ms = _utc_ms(times, offset)
    for name, instances in tables.items():
        lsn = max((newest.get(i) or "" for i in instances), default="") or None
        of_table[name] = Newest(lsn, times_ms.get(lsn or ""), tuple(instances))
    return SourceState(
        None if highest is None else str(highest),
        None if highest is None else times_ms.get(str(highest)),
        latency,
        age,
        retention,
        of_table,
        times_ms,
        _utc_ms(waiting, offset),
        error,
    )


def _utc_ms(times: Mapping[str, datetime], offset: timedelta) -> dict[str, int]:
    return {
        lsn: round((local - offset).replace(tzinfo=UTC).timestamp() * 1000)
        for lsn, local in times.items()
    }


def _capture(connection: Connection) -> tuple[float | None, float | None, str | None]:
    try:
        sessions = scan_sessions(connection)
    except PermissionMissing:
        return None, None, None
    age = scan_age_s(sessions)
    error = None if failed_scan(sessions) is None else _newest_error(connection)
    return finite(latency_s(sessions)), None if math.isinf(age) else age, error


def _newest_error(connection: Connection) -> str:
    """Return the newest error of the capture process.

    It is in the view that needs the same permission as the sessions.

    See: sys.dm_cdc_errors.
    """
    rows = connection.query(
        "SELECT TOP (1) entry_time, error_number, error_message FROM sys.dm_cdc_errors"
        " ORDER BY entry_time DESC"
    )
    return "".join(f"{at:%H:%M:%S} error {number}: {text}" for at, number, text in rows)


def _newest_lsns(connection: Connection, instances: Sequence[str]) -> dict[str, str | None]:
    found: dict[str, str | None] = {}
    for group in _groups(instances):
        rows = connection.query(
            " UNION ALL ".join(
                f"SELECT {quote_text(instance)}, (SELECT MAX([__$start_lsn]) FROM"
                f" {queries.change_table(instance)})"
                for instance in group
            )
        )
        found |= {str(row[0]): None if row[1] is None else lsn_text(row[1]) for row in rows}
    return found


def _times(connection: Connection, condition: str, lsns: Sequence[str]) -> dict[str, datetime]:
    """Local commit time of the commit that a condition finds for each LSN."""
    found: dict[str, datetime] = {}
    for group in _groups(lsns):
        rows = connection.query(
            " UNION ALL ".join(
                "SELECT ?, (SELECT TOP (1) tran_end_time FROM cdc.lsn_time_mapping"
                f" WHERE {condition})"
                for _ in group
            ),
            *(value for lsn in group for value in (lsn, Lsn.parse(lsn).to_bytes())),
        )
        found |= {str(row[0]): row[1] for row in rows if row[1] is not None}
    return found


def _groups(values: Sequence[Any]) -> Iterator[Sequence[Any]]:
    for first in range(0, len(values), _AT_ONCE):
        yield values[first : first + _AT_ONCE]
