"""When jobs of one's own fall due, and what a run of their steps does."""

from __future__ import annotations

import datetime
import threading

import pytest

from emulator.tests.unit.cdc.conftest import Shop
from tailrace_emulator.cdc.agent import Agent
from tailrace_emulator.cdc.own_jobs import OwnJob, Schedule, Step, put_job, today
from tailrace_emulator.cdc.runtime import runtime
from tailrace_emulator.messages.errors import SqlError
from tailrace_emulator.storage.values import ticks_of

DAILY = {"freq_type": 4, "freq_interval": 1}


def at(text: str) -> int:
    return ticks_of(datetime.datetime.fromisoformat(text))


def schedule(**changed) -> Schedule:
    given = {
        "name": "s",
        "enabled": True,
        "freq_type": 1,
        "freq_interval": 0,
        "subday_type": 1,
        "subday_interval": 0,
        "start_date": 20260130,
        "end_date": 99991231,
        "start_time": 0,
        "end_time": 235959,
    }
    return Schedule(**(given | changed))


@pytest.mark.parametrize(
    ("made", "after", "expected"),
    [
        (schedule(start_time=20000), "2026-01-01", "2026-01-30T02:00"),
        (schedule(start_time=20000), "2026-01-30T02:00", None),
        (schedule(**DAILY, start_time=20000), "2026-01-30T02:00", "2026-01-31T02:00"),
        (schedule(**DAILY, start_time=20000), "2026-02-01T01:59:59", "2026-02-01T02:00"),
        (schedule(freq_type=4, freq_interval=3), "2026-01-31", "2026-02-02"),
        (schedule(freq_type=4, freq_interval=3), "2026-02-02", "2026-02-05"),
        (
            schedule(**DAILY, subday_type=4, subday_interval=15, start_time=80000, end_time=83000),
            "2026-01-30T08:15",
            "2026-01-30T08:30",
        ),
        (
            schedule(**DAILY, subday_type=4, subday_interval=15, start_time=80000, end_time=83000),
            "2026-01-30T08:30",
            "2026-01-31T08:00",
        ),
        (schedule(**DAILY, subday_type=2, subday_interval=10), "2026-01-30", "2026-01-30T00:00:10"),
        (schedule(**DAILY, subday_type=8, subday_interval=5), "2026-01-30T20:00", "2026-01-31"),
        (schedule(**DAILY, end_date=20260131), "2026-01-31T00:00", None),
        (schedule(**DAILY, enabled=False), "2026-01-01", None),
        (schedule(freq_type=64), "2026-01-01", None),
    ],
)
def test_the_next_moment(made, after, expected):
    assert made.next_due(at(after)) == (None if expected is None else at(expected))


def test_a_date_as_msdb_writes_it():
    assert today(at("2026-01-30T23:59")) == 20260130


class Steps:
    """Stands for what runs T-SQL: which is serving's, not change data capture's."""

    def __init__(self) -> None:
        self.ran: list[tuple[str, str]] = []

    def __call__(self, database: str, command: str, stop: threading.Event) -> SqlError | None:
        self.ran.append((database, command))
        if command == "stop":
            stop.set()
        return SqlError(8134, "Divide by zero error encountered.") if command == "fail" else None


def job(shop: Shop, *steps: Step, when: Schedule | None = None) -> OwnJob:
    now = shop.clock.now_ticks()
    made = OwnJob("0e0f2a60-0000-4000-8000-000000000001", "mine", True, "", now, now, steps, when)
    with shop.engine.write() as connection:
        put_job(connection, shop.engine.database("msdb"), made)
    return made


def outcome(shop: Shop, made: OwnJob) -> list[tuple[int, int]]:
    key = (shop.engine.database("msdb").database_id, made.job_type)
    return [(e.step_id, int(e.status)) for e in runtime(shop.engine).job_history.entries(key)]


@pytest.mark.parametrize(
    ("steps", "ran", "ended"),
    [
        ((Step("a", "d", "ok"),), ["ok"], [(1, 1), (0, 1)]),
        ((Step("a", "d", "fail"),), ["fail"], [(1, 0), (0, 0)]),
        ((Step("a", "d", "ok"), Step("b", "d", "ok")), ["ok"], [(1, 1), (0, 1)]),
        ((Step("a", "d", "ok", 3), Step("b", "d", "no")), ["ok", "no"], [(1, 1), (2, 1), (0, 1)]),
        ((Step("a", "d", "fail", 1, 3), Step("b", "d", "ok")), ["fail", "ok"],
         [(1, 0), (2, 1), (0, 1)]),
        ((Step("a", "d", "fail", 1, 1),), ["fail"], [(1, 0), (0, 1)]),
        ((Step("a", "d", "ok", 3),), ["ok"], [(1, 1), (0, 0)]),
        ((Step("a", "d", "stop", 3), Step("b", "d", "no")), ["stop"], [(0, 3)]),
        ((), [], [(0, 0)]),
    ],
)  # fmt: skip
def test_steps_follow_one_another_as_they_say(shop, steps, ran, ended):
    run = Steps()
    agent = Agent(shop.engine, "manual", 0.0, run)
    try:
        made = job(
            shop,
            *steps,
            when=schedule(**DAILY, start_date=20000101, subday_type=8, subday_interval=1),
        )
        agent.run_due()
        assert run.ran == []
        shop.clock.advance(3600)
        agent.run_due()
        agent.run_due()
        assert [command for _, command in run.ran] == ran
        assert outcome(shop, made) == ended
    finally:
        agent.close()


def test_what_fell_due_while_nobody_looked_runs_once(shop):
    run = Steps()
    agent = Agent(shop.engine, "manual", 0.0, run)
    try:
        job(
            shop,
            Step("a", "d", "ok"),
            when=schedule(**DAILY, start_date=20000101, subday_type=4, subday_interval=1),
        )
        shop.clock.advance(3600)
        agent.run_due()
        agent.run_due()
        assert len(run.ran) == 1
        shop.clock.advance(60)
        agent.run_due()
        assert len(run.ran) == 2
    finally:
        agent.close()


def test_what_fell_due_before_the_agent_was_there_is_not_made_up_for(shop):
    job(shop, Step("a", "d", "ok"), when=schedule(**DAILY, start_date=20000101, start_time=0))
    shop.clock.advance(3 * 86400)
    run = Steps()
    agent = Agent(shop.engine, "manual", 0.0, run)
    try:
        agent.run_due()
        assert run.ran == []
        shop.clock.advance(86400)
        agent.run_due()
        assert len(run.ran) == 1
    finally:
        agent.close()


def test_a_job_of_the_agents_start_runs_then(shop):
    made = job(shop, Step("a", "d", "ok"), when=schedule(freq_type=64))
    run = Steps()
    agent = Agent(shop.engine, "manual", 0.0, run)
    try:
        agent.start()
        agent.run_due()
        assert outcome(shop, made) == [(1, 1), (0, 1)]
    finally:
        agent.close()
