"""What the watch makes of the capture job's sessions: age, latency, and since when it is told.

The connection is a stand-in: the embedded server's scans do not run for hours.
"""

from __future__ import annotations

import math
from datetime import datetime, timedelta
from typing import Any, cast

from structlog.testing import capture_logs

from tailrace_publisher.daemon.session.capture_job_watch import CaptureWatch
from tailrace_publisher.errors import PermissionMissing
from tailrace_publisher.metrics.publisher_metrics import Metrics
from tailrace_publisher.ports import Connection
from tailrace_schemas.position.lsn import Lsn

NOON = datetime(2026, 11, 22, 12, 0, 0)  # noqa: DTZ001
HOUR = timedelta(hours=1)


class Server:
    """Answers with the sessions that it is given, newest first."""

    def __init__(self, now: datetime, *rows: tuple[Any, ...]) -> None:
        self.now = now
        self.rows = rows
        self.is_refusing = False
        self.has_groups = False
        self.is_secondary = False
        self.captured = Lsn(1, 0x10, 1)
        self.log_end: Lsn | None = Lsn(1, 0x10, 1)

    def query_sets(self, sql: str) -> list[list[Any]]:
        assert sql.startswith("SELECT GETDATE()")
        if self.is_refusing:
            raise PermissionMissing("VIEW DATABASE STATE permission was denied", number=262)
        rows = [(*row, *[None] * (11 - len(row))) for row in self.rows]
        newest = [(self.captured.to_bytes(),)]
        return [[(self.now,)], rows, newest, newest]

    def query(self, sql: str) -> list[Any]:
        if "IsHadrEnabled" in sql:
            return [(int(self.has_groups),)]
        if "Updateability" in sql:
            return [("READ_ONLY" if self.is_secondary else "READ_WRITE",)]
        if "EngineEdition" in sql:
            return [(3, 15, None)]
        if "dm_db_log_stats" in sql:
            if self.log_end is None:
                raise PermissionMissing("VIEW SERVER STATE permission was denied", number=300)
            return [(str(self.log_end), 16.0)]
        assert "cdc_jobs" in sql or "sp_cdc_help_jobs" in sql
        raise PermissionMissing("db_owner is needed", number=22904)


def watch(server: Server) -> tuple[CaptureWatch, Metrics]:
    metrics = Metrics()
    return CaptureWatch(cast(Connection, server), 60.0, metrics), metrics


def gauge(metrics: Metrics, name: str) -> float:
    value = metrics.registry.get_sample_value(name)
    assert value is not None
    return value


def test_a_scan_that_runs_for_hours_is_no_reason_to_be_complete_up_to_now():
    running = (8, NOON, None, 400, 0, 0, 0)
    before = (7, NOON - HOUR, NOON - HOUR, 0, 3, 0, 0)
    looking, metrics = watch(Server(NOON + 3 * HOUR, running, before))

    assert looking.look() == NOON - HOUR
    assert gauge(metrics, "tailrace_capture_scan_age_seconds") == 0
    assert gauge(metrics, "tailrace_capture_latency_seconds") == 3 * 3600


def test_the_latency_is_that_of_the_newest_session_that_ended():
    looking, metrics = watch(Server(NOON, (8, NOON - HOUR, NOON, 500, 0, 0, 7200)))

    assert looking.look() is None
    assert gauge(metrics, "tailrace_capture_latency_seconds") == 7200


def test_a_login_that_may_not_see_the_sessions_claims_nothing():
    server = Server(NOON)
    server.is_refusing = True
    looking, metrics = watch(server)

    assert looking.look() is None
    assert math.isnan(gauge(metrics, "tailrace_capture_latency_seconds"))


def test_without_any_session_nothing_is_known_and_the_age_is_infinite():
    looking, metrics = watch(Server(NOON))

    assert looking.look() is None
    assert math.isinf(gauge(metrics, "tailrace_capture_scan_age_seconds"))
    assert math.isnan(gauge(metrics, "tailrace_capture_latency_seconds"))


def test_the_backlog_is_the_log_behind_what_was_captured():
    server = Server(NOON, (8, NOON, NOON, 0, 1, 0, 0))
    server.log_end = Lsn(1, 0x110, 7)
    looking, metrics = watch(server)

    looking.look()
    assert gauge(metrics, "tailrace_log_backlog_bytes") == 0x100 * 512

    server.rows = ((8, NOON, NOON, 0, 2, 0, 0, str(server.log_end), None),)
    looking.look()
    assert gauge(metrics, "tailrace_log_backlog_bytes") == 0

    server.log_end = Lsn(3, 0x110, 7)
    looking.look()
    assert gauge(metrics, "tailrace_log_backlog_bytes") == 2 * 16 * 1024 * 1024


def test_a_session_that_began_later_than_now_is_of_a_clock_that_was_set_back():
    looking, _ = watch(Server(NOON - HOUR, (8, NOON, NOON, 0, 1, 0, 0)))

    assert looking.look() is None


def test_a_log_reader_that_waits_for_replicas_is_not_known_by_finding_nothing():
    server = Server(NOON, (8, NOON, NOON, 0, 1, 0, 0, str(Lsn(1, 0x20, 1)), None))
    server.has_groups = True
    server.log_end = Lsn(1, 0x20, 1)
    looking, _ = watch(server)
    assert looking.look() == NOON

    server.log_end = Lsn(1, 0x50, 1)
    for hours in (1, 2):
        server.now = NOON + hours * HOUR
        server.rows = ((8, server.now, server.now, 0, 90, 0, 0, str(Lsn(1, 0x20, 1)), None),)
        assert looking.look() == NOON, "committed behind 0x20, and not captured"

    server.now = NOON + 3 * HOUR
    server.log_end = Lsn(1, 0x60, 1)
    server.captured = Lsn(1, 0x50, 1)
    assert looking.look() == NOON + 2 * HOUR


def test_a_secondary_claims_nothing_by_the_end_of_its_own_log():
    """The primary's log goes on behind it, and its own view of the sessions is empty."""
    server = Server(NOON)
    server.has_groups = server.is_secondary = True
    server.log_end = server.captured = Lsn(1, 0x20, 1)
    looking, _ = watch(server)

    assert looking.look() is None


def failed(number: int, end: datetime) -> tuple[Any, ...]:
    return (number, end - timedelta(seconds=1), end, 0, 0, 1, 0)


def test_scans_that_fail_are_no_scans():
    second = timedelta(seconds=1)
    good = (1, NOON - HOUR, NOON - HOUR, 5, 0, 0, 0)
    rows = [failed(number, NOON - (9 - number) * 10 * second) for number in range(8, 1, -1)]
    looking, metrics = watch(Server(NOON, *rows, good))
    looking.look()
    assert gauge(metrics, "tailrace_capture_scan_age_seconds") == 3600

    running = (9, NOON - second, None, 0, 0, 0, 0)
    looking, metrics = watch(Server(NOON, running, *rows, good))
    looking.look()
    assert gauge(metrics, "tailrace_capture_scan_age_seconds") == 3600

    looking, metrics = watch(Server(NOON, running, *rows))
    looking.look()
    assert math.isinf(gauge(metrics, "tailrace_capture_scan_age_seconds"))


def test_without_the_logs_end_known_time_moves_with_what_sessions_have_read():
    """With availability groups: a session that found nothing may have waited for a replica."""
    quarter = NOON - HOUR / 4
    last = str(Lsn(1, 0x10, 1))
    read = (8, NOON - HOUR, NOON, 3, 0, 0, 900, None, last, last, quarter)
    server = Server(NOON, read)
    server.has_groups, server.log_end = True, None
    looking, metrics = watch(server)

    with capture_logs() as told:
        known = looking.look()
    assert known is not None
    assert timedelta(0) < quarter - known < timedelta(seconds=1)
    (warned,) = [event for event in told if event["event"] == "log_end_not_visible"]
    assert warned["fix"].startswith("USE master; GRANT VIEW SERVER STATE TO")
    assert math.isnan(gauge(metrics, "tailrace_log_backlog_bytes"))

    server.rows = ((9, NOON, NOON, 0, 7, 0, 0), read)
    assert looking.look() == known
    server.is_secondary = True
    secondary, _ = watch(server)
    assert secondary.look() is None
