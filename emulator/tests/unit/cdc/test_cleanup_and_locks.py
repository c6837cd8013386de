"""Cleanup keeps to row locks: it waits for transactions that have changed what it is to delete."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from emulator.tests.unit.cdc.conftest import Shop
from emulator.tests.unit.cdc.test_cleanup import captured_hourly, set_retention
from emulator.tests.unit.storage.conftest import Background, wait_until_blocked
from tailrace_emulator.cdc import cleanup, job_runs
from tailrace_emulator.cdc.agent import Agent
from tailrace_emulator.messages.errors import SqlError
from tailrace_emulator.storage.transaction import StatementRestart, StoreSession

CHANGE_TABLE = ("cdc", "dbo_orders_CT")


@pytest.fixture
def old(orders: Shop) -> Shop:
    """With five change rows, of which the retention leaves the last two."""
    captured_hourly(orders, 5)
    set_retention(orders, 60)
    return orders


@pytest.fixture
def other(old: Shop) -> Iterator[StoreSession]:
    session = StoreSession(old.engine, 52)
    yield session
    session.close()


def table(shop, name=CHANGE_TABLE):
    found = shop.database.table(*name)
    assert found is not None
    return found


def change(shop, session, id_, amount, name=CHANGE_TABLE):
    """UPDATE of a change row (of a captured row's id) in the session's transaction."""
    made = table(shop, name)
    columns = [c.sqlite_name for c in made.columns]
    place = [c.name for c in made.columns].index("id")
    with session.statement():
        (row,) = session.connection.execute(
            f"SELECT rid, {', '.join(columns)} FROM {session.reads.source(made)}"
            f" WHERE {columns[place]} = ?",
            (id_,),
        ).fetchall()
        image = list(row[1:])
        image[place + 2] = amount
        session.update(made, [(row[0], tuple(image))])


def ids(shop):
    return [row["id"] for row in shop.changes("dbo_orders")]


def by_job(shop):
    return cleanup.run_cleanup_job(shop.engine, shop.database, shop.session)


def by_procedure(shop):
    mark = shop.changes("dbo_orders")[3]["__$start_lsn"]
    return cleanup.cleanup_change_table(
        shop.engine, shop.database, "dbo_orders", mark, 2, shop.session
    )


@pytest.mark.parametrize("run", [by_job, by_procedure])
@pytest.mark.parametrize("end", ["commit", "rollback"])
def test_it_waits_for_a_changed_row_and_deletes_it_then(old, other, run, end):
    other.begin()
    change(old, other, 1, 777)
    running = Background(lambda: run(old))
    wait_until_blocked(old.engine)
    assert 1 in ids(old)
    getattr(other, end)()
    result = running.join()
    assert (result.deleted, result.failed) == ({"dbo_orders": 3}, ())
    assert ids(old) == [3, 4]
    assert old.engine.locks.held() == []


def test_rows_that_stay_are_not_waited_for(old, other):
    other.begin()
    change(old, other, 4, 777)
    assert by_job(old).deleted == {"dbo_orders": 3}
    other.commit()
    assert [(r["id"], r["amount"]) for r in old.changes("dbo_orders")] == [(3, 1), (4, 777)]


def test_a_lock_timeout_fails_the_table(old, other):
    other.begin()
    change(old, other, 1, 777)
    old.session.lock_timeout_ms = 0
    result = by_job(old)
    assert result.failed == ("dbo_orders",)
    assert result.errors["dbo_orders"].number == 1222
    other.commit()
    assert ids(old) == [0, 1, 2, 3, 4]


def test_a_deadlock_has_a_victim(old, other):
    old.session.begin()
    change(old, old.session, 0, 1)
    other.deadlock_priority = 5
    other.begin()
    change(old, other, 1, 777)
    waiting = Background(lambda: change(old, other, 0, 2))
    wait_until_blocked(old.engine)
    with pytest.raises(SqlError) as raised:
        by_job(old)
    assert raised.value.number == 1205
    old.session.rollback()
    waiting.join()
    other.commit()
    assert ids(old) == [0, 1, 2, 3, 4]


@pytest.mark.parametrize("end", ["commit", "rollback"])
def test_what_its_own_session_has_changed_goes_for_good(old, end):
    old.session.begin()
    change(old, old.session, 1, 777)
    change(old, old.session, 4, 778)
    assert by_job(old).deleted == {"dbo_orders": 3}
    getattr(old.session, end)()
    kept = 778 if end == "commit" else 1
    assert [(r["id"], r["amount"]) for r in old.changes("dbo_orders")] == [(3, 1), (4, kept)]
    assert old.engine.locks.held() == []


def test_who_read_a_row_before_it_went_begins_again(old, other):
    made = table(old)

    def update():
        with other.statement():
            rid, *row = other.connection.execute(
                f"SELECT * FROM {other.reads.source(made)} ORDER BY rid LIMIT 1"
            ).fetchone()
            by_job(old)
            other.update(made, [(rid, tuple(row))])

    with pytest.raises(StatementRestart):
        update()
    assert ids(old) == [3, 4]


@pytest.fixture
def agent(old) -> Iterator[Agent]:
    """It runs what enabling the table started, the cleanup too, when it is told to."""
    made = Agent(old.engine, "manual")
    yield made
    made.close()


def test_the_agent_does_not_wait_in_place(old, other, agent):
    other.begin()
    change(old, other, 1, 777)
    agent.run_due()
    assert ids(old) == [0, 1, 2, 3, 4]
    old.insert("orders", (9, "n", 1, None))
    old.clock.advance(60)
    agent.run_due()
    assert ids(old) == [0, 1, 2, 3, 4, 9], "the capture job goes on"
    assert job_runs.is_running(old.engine, old.database, "cleanup")
    other.commit()
    agent.run_due()
    assert not job_runs.is_running(old.engine, old.database, "cleanup")
    assert ids(old) == [4, 9]


def test_a_blocked_run_of_the_agent_can_be_stopped(old, other, agent):
    other.begin()
    change(old, other, 1, 777)
    agent.run_due()
    assert job_runs.stop_run(old.engine, old.database, "cleanup")
    other.rollback()
    agent.run_due()
    assert ids(old) == [0, 1, 2, 3, 4]


def test_mapping_entries_are_waited_for_too(old, other):
    made = table(old, ("cdc", "lsn_time_mapping"))
    other.begin()
    with other.statement():
        rid, *row = other.connection.execute(
            f"SELECT * FROM {other.reads.source(made)} ORDER BY rid LIMIT 1"
        ).fetchone()
        row[-2] = b"changed"
        other.update(made, [(rid, tuple(row))])
    running = Background(lambda: by_job(old))
    wait_until_blocked(old.engine)
    other.commit()
    running.join()
    low = old.rows("cdc", "change_tables")[0]["start_lsn"]
    assert all(row["start_lsn"] >= low for row in old.rows("cdc", "lsn_time_mapping"))


def test_many_rows_leave_no_lock_of_the_table(old):
    old.insert("orders", *((n, "n", 1, None) for n in range(100, 7100)))
    old.scan()
    captured_hourly(old, 3, first=10)
    set_retention(old, 60, threshold=6000)
    assert by_job(old).deleted == {"dbo_orders": 7006}
    assert old.engine.locks.held() == []
