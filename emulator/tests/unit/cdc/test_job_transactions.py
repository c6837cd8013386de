"""Jobs in transactions: a run ends and begins with the commit of what drops and makes its job."""

import threading
from contextlib import contextmanager

import pytest

from tailrace_emulator.cdc import jobs
from tailrace_emulator.cdc.agent import Agent, AgentMode
from tailrace_emulator.cdc.enable_database import disable_database, enable_database
from tailrace_emulator.cdc.enable_table import EnableTable, enable_table
from tailrace_emulator.cdc.job_runs import is_running
from tailrace_emulator.cdc.runtime import runtime
from tailrace_emulator.storage.model import Column
from tailrace_emulator.values.types import INT


def runs(shop, job_type="capture"):
    """Whether the job runs, as everybody sees it."""
    return (shop.database.database_id, job_type) in runtime(shop.engine).jobs


@contextmanager
def transaction(shop, *, commits):
    """A transaction of the session with DDL in it."""
    shop.session.begin()
    yield
    if commits:
        shop.session.commit()
    else:
        shop.session.rollback()


def as_ddl(shop, body):
    with shop.session.ddl(()):
        return body()


def drop(shop, job_type="capture"):
    with shop.engine.write() as connection:
        jobs.drop_job(connection, shop.engine, shop.database, job_type)


def add(shop, job_type="capture"):
    with shop.engine.write() as connection:
        jobs.add_job(connection, shop.engine, shop.database, job_type, jobs.JobOptions())


def start(shop, job_type="capture"):
    with shop.engine.write() as connection:
        return jobs.start_job(connection, shop.engine, shop.database, job_type)


@pytest.fixture
def agent(orders):
    made = Agent(orders.engine, AgentMode.MANUAL)
    made.start()
    yield made
    made.close()


@pytest.mark.parametrize("commits", [True, False])
def test_a_dropped_job_ends_with_the_commit(orders, agent, commits):
    agent.run_due()
    with transaction(orders, commits=commits):
        as_ddl(orders, lambda: drop(orders))
        assert runs(orders)
        assert not is_running(orders.engine, orders.database, "capture")
    assert runs(orders) is not commits
    if not commits:
        orders.insert("orders", (1, "a", 1, None))
        orders.clock.advance(5)
        agent.run_due()
        assert [row["id"] for row in orders.changes("dbo_orders")] == [1]


@pytest.mark.parametrize("commits", [True, False])
def test_disabling_the_database_ends_its_jobs_with_the_commit(orders, agent, commits):
    orders.insert("orders", (1, "a", 1, None))
    agent.run_due()
    history = runtime(orders.engine).history(orders.database)
    with transaction(orders, commits=commits):
        as_ddl(orders, lambda: disable_database(orders.engine, orders.database))
        assert runs(orders)
    assert runs(orders) is not commits
    assert (runtime(orders.engine).history(orders.database) is history) is not commits


def test_a_job_dropped_and_made_again_runs_on_once(orders, agent):
    with transaction(orders, commits=True):
        as_ddl(orders, lambda: drop(orders))
        as_ddl(orders, lambda: add(orders))
        as_ddl(orders, lambda: start(orders))
        with pytest.raises(Exception, match="already running"):
            as_ddl(orders, lambda: start(orders))
    assert runs(orders)
    orders.insert("orders", (1, "a", 1, None))
    assert agent.run_due() > 0
    assert [row["id"] for row in orders.changes("dbo_orders")] == [1]


def test_a_savepoint_keeps_what_came_before_it(orders):
    with transaction(orders, commits=True):
        as_ddl(orders, lambda: drop(orders, "cleanup"))
        orders.session.savepoint("here")
        as_ddl(orders, lambda: drop(orders))
        orders.session.rollback_to("here")
        assert is_running(orders.engine, orders.database, "capture")
    assert runs(orders)
    assert not runs(orders, "cleanup")


def test_a_failed_statement_ends_no_run(orders):
    def drop_and_fail():
        drop(orders)
        raise ValueError("fails")

    with transaction(orders, commits=True), pytest.raises(ValueError, match="fails"):
        as_ddl(orders, drop_and_fail)
    with transaction(orders, commits=True):
        as_ddl(orders, lambda: None)
    assert runs(orders)


@pytest.mark.parametrize("commits", [True, False])
def test_the_jobs_of_the_first_table_begin_with_the_commit(shop, commits):
    shop.create("t", Column(0, "id", INT, False))
    with transaction(shop, commits=commits):
        as_ddl(
            shop, lambda: enable_table(shop.engine, shop.database, EnableTable("dbo", "t", None))
        )
        assert is_running(shop.engine, shop.database, "capture")
        assert not runs(shop)
    assert runs(shop) is runs(shop, "cleanup") is commits


def test_a_database_disabled_and_enabled_in_one_transaction_runs_the_new_jobs(orders):
    with transaction(orders, commits=True):
        as_ddl(orders, lambda: disable_database(orders.engine, orders.database))
        as_ddl(orders, lambda: enable_database(orders.engine, orders.database))
        as_ddl(orders, lambda: orders.track("orders"))
    assert runs(orders)
    assert runs(orders, "cleanup")


def test_a_job_stopped_by_hand_stays_stopped_when_the_transaction_is_undone(orders):
    with transaction(orders, commits=False):
        as_ddl(orders, lambda: drop(orders, "cleanup"))
        jobs.stop_job(orders.session.connection, orders.engine, orders.database, "capture")
        assert not runs(orders)
    assert not runs(orders)
    assert runs(orders, "cleanup")


def test_a_start_that_has_not_begun_can_be_taken_back(shop):
    shop.create("t", Column(0, "id", INT, False))
    with transaction(shop, commits=True):
        as_ddl(shop, lambda: shop.track("t"))
        jobs.stop_job(shop.session.connection, shop.engine, shop.database, "capture")
    assert not runs(shop)
    assert runs(shop, "cleanup")


def test_the_agent_does_not_end_a_run_whose_database_is_being_disabled(orders, agent):
    """It sees the catalog as the open transaction has it, and must wait for that to end."""
    agent.run_due()
    orders.clock.advance(5)
    looking = threading.Thread(target=agent.run_due)
    with transaction(orders, commits=False):
        as_ddl(orders, lambda: disable_database(orders.engine, orders.database))
        looking.start()
        looking.join(0.3)
        assert looking.is_alive()
    looking.join(30)
    assert runs(orders)
