"""The clocks: every figure in seconds is only as exact as they are."""

from __future__ import annotations

import time
from collections.abc import Iterator
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Final

from tailrace.doctor.asking import Source
from tailrace.doctor.findings import Finding, Fix, Judge, Part
from tailrace_publisher.errors import ConfigError
from tailrace_publisher.source.log.commit_times import has_time_zone, time_zone
from tailrace_service.registry.access import open_registry
from tailrace_service.registry.client import RegistryError
from tailrace_service.registry.options import RegistryConfig

_JUDGE: Final = Judge(Part.CLOCKS)
_APART_S: Final = 5.0
_WHY: Final = "lags in seconds and as_of(time=...) are wrong by as much; order and content are not"


def look_at_server_clock(source: Source) -> Iterator[Finding]:
    """Compare the server's clock with this machine's. See: SYSUTCDATETIME (Transact-SQL)."""
    before = time.time()
    row = source.row("clock", "SELECT SYSUTCDATETIME()")
    if row is not None:
        yield judged("SQL Server", row[0].replace(tzinfo=UTC), before, time.time())


def look_at_time_zone(source: Source, configured: str | None) -> Iterator[Finding]:
    """Judge whether the times of a backlog are right across a change of the clocks."""
    try:
        time_zone(source.connection, configured)
    except ConfigError as error:
        yield _JUDGE.problem("time zone", "; ".join(error.problems), "the publisher does not start")
        return
    if configured is not None or has_time_zone(source.connection):
        yield _JUDGE.ok("time zone", "each commit gets the offset of its own time")
        return
    yield _JUDGE.warning(
        "time zone",
        "the server does not report it, as SQL Server 2022 and later do",
        "the times of a backlog across a change of the clocks are an hour off",
        Fix("publisher.source.time_zone: <a name of sys.time_zone_info; UTC has no changes>"),
    )


def look_at_registry_clock(config: RegistryConfig) -> Iterator[Finding]:
    """Compare the registry's clock, by the date of an answer, with this machine's."""
    before = time.time()
    try:
        with open_registry(config) as registry:
            told = parsedate_to_datetime(registry.date() or "")
    except (RegistryError, ValueError):
        return
    yield judged("schema registry", told, before - 1, time.time() + 1)  # whole seconds


def judged(whose: str, told: datetime, before: float, after: float) -> Finding:
    """The judgement on a clock that was read between two moments."""
    at = told.timestamp()
    apart = at - after if at > after else min(0.0, at - before)
    if abs(apart) < _APART_S:
        return _JUDGE.ok(whose, f"{abs(apart):.1f} s from this machine's")
    direction = "ahead of" if apart > 0 else "behind"
    return _JUDGE.warning(
        whose,
        f"{abs(apart):.0f} s {direction} this machine's",
        _WHY,
        Fix("let both follow a time server (NTP)"),
    )
