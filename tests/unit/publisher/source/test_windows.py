"""How far a poll reads."""

import math
from datetime import datetime, timedelta, timezone
from typing import cast

import pytest

from tailrace_publisher.errors import ConfigError, SourceError
from tailrace_publisher.ports import Connection
from tailrace_publisher.source.log.commit_times import (
    Commits,
    has_time_zone,
    milliseconds,
    time_zone,
)
from tailrace_publisher.source.log.windows import Window, WindowSize, plan_window, seen_by_readers
from tailrace_schemas.position.change_position import ChangePosition
from tailrace_schemas.position.lsn import Lsn

START = ChangePosition.end_of(Lsn(1, 0, 0))


def at(block: int) -> Lsn:
    return Lsn(1, block, 0)


def commits(*blocks: int) -> Commits:
    return Commits.of_rows(
        (at(block).to_bytes(), datetime(2013, 1, 1, 0, 0, block), b"\x01")  # noqa: DTZ001
        for block in blocks
    )


def test_without_commits_there_is_no_window():
    assert plan_window(START, Commits(), 10, [], [], 0) is None


def test_a_window_ends_at_the_last_commit_and_knows_their_times():
    window = plan_window(START, commits(2, 5), 10, [], [], utc_offset_minutes=60)

    assert window is not None
    assert window.span.up_to == at(5)
    assert window.first_lsn == at(2)
    assert window.is_last
    assert window.commit_ms[at(5).to_bytes()] == 1_356_998_405_000 - 3_600_000


def test_as_many_commits_as_were_asked_for_mean_that_there_may_be_more():
    window = plan_window(START, commits(2, 5), 2, [], [], 0)

    assert window is not None
    assert not window.is_last


def test_rows_at_a_hand_over_come_from_the_older_instance():
    window = plan_window(START, commits(2, 5, 7), 10, [at(5)], [], 0)

    assert window is not None
    assert window.span.up_to == at(5)
    assert not window.is_last


def test_a_hand_over_that_is_behind_us_cuts_nothing():
    window = plan_window(START, commits(6, 7), 10, [at(5)], [], 0)

    assert window is not None
    assert window.span.up_to == at(7)


def test_rows_at_a_ddl_lsn_have_the_new_version():
    first = plan_window(START, commits(2, 5, 7), 10, [], [at(5)], 0)
    second = plan_window(ChangePosition.end_of(at(2)), commits(5, 7), 10, [], [at(5)], 0)

    assert first is not None
    assert second is not None
    assert first.span.up_to == at(2)
    assert second.span.up_to == at(7)


def test_each_commit_of_a_backlog_over_a_clock_switch_has_the_offset_of_its_own_time():
    summer = (at(2).to_bytes(), datetime(2026, 10, 25, 1, 30), b"\x01", 120)  # noqa: DTZ001
    winter = (at(5).to_bytes(), datetime(2026, 10, 25, 4, 30), b"\x02", 60)  # noqa: DTZ001
    untold = (at(7).to_bytes(), datetime(2026, 10, 25, 4, 31), b"\x03", None)  # noqa: DTZ001
    found = Commits.of_rows([summer, winter, untold])
    window = plan_window(START, found, 10, [], [], utc_offset_minutes=60)

    assert window is not None
    times = [window.commit_ms[at(block).to_bytes()] for block in (2, 5, 7)]
    assert times[1] - times[0] == 4 * 3_600_000
    assert times[2] - times[1] == 60_000


def test_a_commit_without_a_time_has_that_of_the_one_before():
    moment = datetime(2013, 1, 1)  # noqa: DTZ001
    rows = [(2, None), (3, moment), (4, moment), (5, None), (6, moment + timedelta(seconds=1))]
    found = Commits.of_rows((at(block).to_bytes(), time, None) for block, time in rows)
    window = plan_window(START, found, 10, [], [], 0)

    assert window is not None
    start = 1_356_998_400_000
    assert [*window.commit_ms.values()] == [0, start, start, start, start + 1000]


def test_an_entry_is_found_by_its_lsn_and_nothing_beside_it():
    found = commits(2, 5, 7)

    assert [found.at(at(block)) for block in (1, 2, 3, 7, 8)] == [
        None,
        found[0],
        None,
        found[2],
        None,
    ]
    assert found[1].commit_lsn == at(5)
    assert found[1].tran_id == b"\x01"
    assert found[1].offset_minutes is None
    assert [*found.up_to(at(6))] == [*found[:2]] == [found[0], found[1]]


def test_a_window_has_as_many_transactions_as_make_so_many_rows():
    size = WindowSize(20_000)
    asked = [size.transactions]
    for transactions, rows in [
        *[(5_000, 50_000), (20_000, 20_000), (20_000, 0)],
        *[(100, 100_000), (500, 500_000), (1, 5_000_000), (1, 1)],
    ]:
        size.learn(transactions, rows)
        asked.append(size.transactions)

    assert asked == [5_000, 20_000, 20_000, 20_000, 500, 500, 1, 20_000]
    assert WindowSize(3).transactions == 3


@pytest.mark.parametrize("zone", [-330, 0, 120])
@pytest.mark.parametrize("moment", ["1969-12-31T23:59:59.997", "2026-10-25T01:30:00.123999"])
def test_milliseconds_of_a_local_time_are_those_of_its_moment(moment: str, zone: int):
    local = datetime.fromisoformat(moment)
    aware = local.replace(tzinfo=timezone(timedelta(minutes=zone)))

    assert milliseconds(local, zone) == math.floor(aware.timestamp() * 1000 + 1e-4)


class Zoned:
    """A server that tells a time zone, or why it does not."""

    def __init__(self, zone: str | None, unknown: int = 0) -> None:
        self._zone = zone
        self._unknown = unknown

    def query(self, sql: str, *parameters: str) -> list[tuple[object]]:
        assert ("AT TIME ZONE ?" in sql) == bool(parameters)
        if self._zone is None or (parameters and self._unknown):
            raise SourceError("no", number=self._unknown or 195)
        return [(60 if parameters else self._zone,)]


@pytest.mark.parametrize(
    ("server", "zone"),
    [
        (Zoned("W. Europe Standard Time"), "W. Europe Standard Time"),
        (Zoned("UTC"), None),
        (Zoned(None), None),
        (Zoned("Europe/Berlin", 9820), None),
    ],
)
def test_a_zone_is_used_where_the_server_tells_one_that_it_takes(server: Zoned, zone: str | None):
    assert time_zone(cast(Connection, server)) == zone


class Untold:
    """A server before 2022, an hour ahead of UTC."""

    def __init__(self, offset_in_zone: int | None, number: int = 9820) -> None:
        self._offset = offset_in_zone
        self._number = number

    def query(self, sql: str, *_: str) -> list[tuple[object, ...]]:
        if "CURRENT_TIMEZONE_ID" in sql:
            raise SourceError("not a recognized built-in function", number=195)
        assert "SYSDATETIMEOFFSET() AT TIME ZONE ?" in sql
        if self._offset is None:
            raise SourceError("invalid", number=self._number)
        return [(60, self._offset)]


def test_a_zone_is_configured_where_the_server_does_not_tell_one():
    server = cast(Connection, Untold(60))
    assert time_zone(server) is None
    assert time_zone(server, "W. Europe Standard Time") == "W. Europe Standard Time"
    assert not has_time_zone(server)
    assert has_time_zone(cast(Connection, Zoned("UTC")))


def test_a_zone_that_the_server_tells_goes_before_the_configured_one():
    told = cast(Connection, Zoned("W. Europe Standard Time"))
    assert time_zone(told, "Tokyo Standard Time") == "W. Europe Standard Time"
    assert time_zone(cast(Connection, Zoned("UTC")), "Tokyo Standard Time") is None


@pytest.mark.parametrize("server", [Untold(540), Untold(None), Untold(None, 102)])
def test_a_zone_that_the_server_does_not_have_is_refused(server: Untold):
    with pytest.raises(ConfigError, match=r"source\.time_zone"):
        time_zone(cast(Connection, server), "Tokyo Standard Time")


@pytest.mark.parametrize(
    ("marks", "names", "late", "asked", "needs"),
    [
        ((), {"a"}, set(), [], None),  # the newest is a commit, which readers must see
        ((5,), set(), {"a"}, [], at(2)),  # nothing is read
        ((5,), {"a"}, set(), [(at(2).increment(), at(5))], at(2)),
        ((5,), {"a"}, {"a"}, [(at(2).increment(), at(5))], None),
        ((2, 5), {"a"}, {"a"}, [], None),  # marks alone: the rows are at one of them
    ],
)
def test_readers_must_see_a_commit_that_has_the_lsn_of_a_mark(
    marks: tuple[int, ...],
    names: set[str],
    late: set[str],
    asked: list[tuple[Lsn, Lsn]],
    needs: Lsn | None,
):
    entries = commits(2, 5)
    tran_ids = [b"\x00" if block in marks else b"\x01" for block in (2, 5)]
    rows = zip(entries.lsns, entries.local_times, tran_ids, strict=True)
    window = plan_window(START, Commits.of_rows(rows), 10, [], [], 0)
    assert window is not None
    ranges: list[tuple[Lsn, Lsn]] = []

    def ask(first: Lsn, up_to: Lsn) -> set[str]:
        ranges.append((first, up_to))
        return late

    found: Window = seen_by_readers(window, names, ask)
    assert ranges == asked
    wanted = found.span.up_to if found.span.needs is None else found.span.needs
    assert wanted == (needs or at(5))
