"""What is known of the source's space, by limits and rights; when it ends, by a moved clock.

The connection is a stand-in: the log of the embedded server is no file, and it shows no volumes.
"""

from __future__ import annotations

import math
from typing import Any, cast

import pytest
from structlog.testing import capture_logs

from tailrace_publisher.daemon.upkeep.space_watch import SpaceWatch
from tailrace_publisher.errors import PermissionMissing, SourceUnavailable
from tailrace_publisher.metrics.publisher_metrics import Metrics
from tailrace_publisher.ports import Connection
from tailrace_publisher.runtime import Runtime
from tailrace_publisher.source.log.space import Space, read_space

GIB = 1024**3
PAGES = GIB // 8192


class Server:
    """Answers with the space that it is given; None is refused.

    Attributes:
        files: size, growth and limit of each log file, in pages.
        free: bytes of the volumes of data and log.
    """

    def __init__(self, *files: tuple[int, int, int], free: tuple[int, int] | None = None) -> None:
        self.used: int | None = GIB // 2
        self.files = files or ((PAGES, 8192, 4 * PAGES),)
        self.free = free
        self.is_away = False
        self.queries = 0
        self.kind: tuple[int, int | None] = (3, 16)

    def query(self, sql: str) -> list[Any]:
        if "SERVERPROPERTY" in sql:
            return [(*self.kind, None)]
        self.queries += 1
        if self.is_away:
            raise SourceUnavailable("no answer")
        if "dm_os_volume_stats" in sql:
            if self.free is None:
                raise PermissionMissing("VIEW SERVER STATE permission was denied", number=300)
            return [(0, "d", self.free[0]), (1, "l", self.free[1])]
        if self.used is None:
            raise PermissionMissing("the user does not have permission", number=297)
        return list(self.files) if "database_files" in sql else [(self.used, "REPLICATION")]


def space(*files: tuple[int, int, int], free: tuple[int, int] | None = None) -> Space:
    found = read_space(cast(Connection, Server(*files, free=free)))
    assert found is not None
    return found


@pytest.mark.parametrize(
    ("files", "free", "limit"),
    [
        ([(PAGES, 8192, 4 * PAGES)], None, 4 * GIB),
        ([(PAGES, 0, -1)], None, GIB),  # it does not grow
        ([(PAGES, 8192, 0)], None, GIB),
        ([(PAGES, 8192, -1)], None, None),  # until the disk is full, which is not visible
        ([(PAGES, 8192, 268_435_456)], None, None),
        ([(PAGES, 8192, -1)], (9 * GIB, 2 * GIB), 3 * GIB),
        ([(PAGES, 8192, 2 * PAGES), (PAGES, 0, -1)], (9 * GIB, 90 * GIB), 3 * GIB),
    ],
)
def test_the_limit_is_that_of_files_or_of_the_disk(files, free, limit):
    assert space(*files, free=free).log_limit == limit


def test_the_disk_is_that_of_the_data_files():
    assert space(free=(7 * GIB, GIB)).disk_free == 7 * GIB
    assert space().disk_free is None


class Watched:
    """A watch whose time passes when the test says so."""

    def __init__(self, server: Server) -> None:
        self.now = 1000.0
        self.server = server
        self.metrics = Metrics(lambda: self.now)
        self.watch = SpaceWatch(cast(Connection, server), cast(Runtime, self))

    @property
    def clock(self) -> Watched:
        return self

    def monotonic(self) -> float:
        return self.now

    def pass_time(self, seconds: float, log_growth: int, disk_growth: int = 0) -> list[Any]:
        """The log grows by so many bytes a second; gives the events of the log."""
        with capture_logs() as told:
            for _ in range(round(seconds / 10)):
                self.now += 10
                if self.server.used is not None:
                    self.server.used += 10 * log_growth
                if self.server.free is not None:
                    data, log = self.server.free
                    self.server.free = data - 10 * disk_growth, log
                self.watch.look()
        return list(told)


def test_a_log_that_grows_is_full_in_time_and_is_told_once():
    watched = Watched(Server())
    rate = 1024**2
    told = watched.pass_time(1200, rate)
    left = (4 * GIB - (watched.server.used or 0)) / rate
    assert watched.metrics.log_full_s() == pytest.approx(left, rel=0.02)
    (warned,) = [event for event in told if event["event"] == "log_fills_up"]
    assert warned["log_reuse_wait"] == "REPLICATION"
    assert "sp_cdc_start_job" in warned["fix"]

    assert not watched.pass_time(1200, 0), "it does not grow, and nothing is told"
    assert watched.metrics.log_full_s() == math.inf
    assert [event["event"] for event in watched.pass_time(3600, rate)] == ["log_fills_up"]


def test_a_disk_that_fills_up_is_told():
    watched = Watched(Server(free=(10 * GIB, 90 * GIB)))
    told = watched.pass_time(1200, 0, 1024**2)
    assert [event["event"] for event in told] == ["disk_fills_up"]
    left = (watched.server.free or (0, 0))[0] / 1024**2
    assert watched.metrics.disk_full_s() == pytest.approx(left, rel=0.02)


@pytest.mark.parametrize(
    ("kind", "fix"),
    [
        ((3, 13), "USE master; GRANT VIEW SERVER STATE TO"),
        ((2, 15), "USE master; GRANT VIEW SERVER STATE TO"),
        ((3, 16), "USE master; GRANT VIEW SERVER PERFORMANCE STATE TO"),
        ((3, None), "USE master; GRANT VIEW SERVER STATE TO"),
        ((8, 12), "USE master; GRANT VIEW SERVER PERFORMANCE STATE TO"),
        ((5, 12), "GRANT VIEW DATABASE STATE TO"),
        ((12, 12), "GRANT VIEW DATABASE STATE TO"),
    ],
)
def test_without_the_right_nothing_is_known_and_nobody_asks_again(
    kind: tuple[int, int | None], fix: str
):
    server = Server()
    server.used = None
    server.kind = kind
    watched = Watched(server)
    (told,) = watched.pass_time(600, 0)
    assert (told["event"], told["view"]) == ("space_not_visible", "sys.dm_db_log_space_usage")
    assert told["fix"].startswith(fix)
    assert server.queries == 1
    assert math.isnan(watched.metrics.log_full_s())


def test_volumes_that_are_not_shown_hide_the_disk_alone():
    watched = Watched(Server())
    (told,) = watched.pass_time(1200, 0)
    assert (told["event"], told["view"]) == ("space_not_visible", "sys.dm_os_volume_stats")
    assert told["effect"].endswith("disk is full")
    assert watched.metrics.log_full_s() == math.inf


def test_a_server_that_is_away_is_no_missing_right():
    watched = Watched(Server())
    watched.server.is_away = True
    watched.now += 60
    with pytest.raises(SourceUnavailable):
        watched.watch.look()
    watched.server.is_away = False
    watched.pass_time(600, 1024)
    assert math.isfinite(watched.metrics.log_full_s())
