import threading

import pytest

from tailrace_emulator import messages
from tailrace_emulator.cdc import jobs
from tailrace_emulator.cdc.agent import Agent, AgentMode
from tailrace_emulator.cdc.capture_scan import scan
from tailrace_emulator.cdc.enable_database import enable_database
from tailrace_emulator.cdc.enable_table import EnableTable, enable_table
from tailrace_emulator.cdc.job_runs import is_running
from tailrace_emulator.cdc.jobs import JobOptions
from tailrace_emulator.cdc.runtime import runtime
from tailrace_emulator.cdc.scan_cycle import ScanCycle
from tailrace_emulator.messages.errors import SqlError
from tailrace_emulator.storage.model import Column
from tailrace_emulator.values.types import INT, TICKS_PER_DAY

HOUR_S = 3600


def job(shop, job_type):
    with shop.engine.write() as connection:
        return jobs.find_job(connection, shop.engine, shop.database, job_type)


def change(shop, job_type, **options):
    with shop.engine.write() as connection:
        jobs.change_job(connection, shop.engine, shop.database, job_type, JobOptions(**options))


def start(shop, job_type):
    return jobs.start_job(shop.session.connection, shop.engine, shop.database, job_type)


def stop(shop, job_type):
    return jobs.stop_job(shop.session.connection, shop.engine, shop.database, job_type)


@pytest.fixture
def agent(orders):
    made = Agent(orders.engine, AgentMode.MANUAL)
    made.start()
    yield made
    made.close()


def test_defaults_are_those_of_the_documentation(orders):
    capture, cleanup = job(orders, "capture"), job(orders, "cleanup")
    assert (capture.maxtrans, capture.maxscans) == (1000, 10)
    assert (capture.continuous, capture.pollinginterval) == (True, 5)
    assert (cleanup.retention, cleanup.threshold) == (4320, 5000)


@pytest.mark.parametrize(
    ("job_type", "options", "number"),
    [
        ("capture", {"retention": 5}, 22995),
        ("capture", {"maxtrans": 0}, 22991),
        ("capture", {"maxscans": -1}, 22970),
        ("capture", {"pollinginterval": 86_400}, 22990),
        ("cleanup", {"maxtrans": 5}, 22996),
        ("cleanup", {"retention": 0}, 22994),
        ("cleanup", {"retention": 52_594_801}, 22994),
        ("cleanup", {"threshold": 0}, 22850),
        ("snapshot", {}, 22992),
    ],
)
def test_bad_parameters_have_their_numbers(orders, job_type, options, number):
    with pytest.raises(SqlError) as error:
        change(orders, job_type, **options)
    assert error.value.number == number


def test_add_twice_drop_and_missing(orders):
    with orders.engine.write() as connection, pytest.raises(SqlError) as error:
        jobs.add_job(connection, orders.engine, orders.database, "capture", JobOptions())
    assert error.value.number == 14261
    with orders.engine.write() as connection:
        jobs.drop_job(connection, orders.engine, orders.database, "capture")
    with pytest.raises(SqlError) as error:
        start(orders, "capture")
    assert error.value.number == 22997


def test_start_and_stop_messages_and_refusals(orders):
    assert stop(orders, None) == "Job 'cdc.shop_capture' stopped successfully."
    with pytest.raises(SqlError) as error:
        stop(orders, "capture")
    assert error.value.number == 22022
    assert start(orders, None) == "Job 'cdc.shop_capture' started successfully."
    with pytest.raises(SqlError) as error:
        start(orders, "capture")
    assert error.value.number == 22022


def test_manual_agent_runs_nothing_by_itself(orders, agent):
    orders.insert("orders", (1, "a", 1, None))
    assert orders.changes("dbo_orders") == []
    assert agent.run_due() == 2  # capture and the started cleanup
    assert [r["id"] for r in orders.changes("dbo_orders")] == [1]


def test_capture_pauses_for_its_polling_interval(orders, agent):
    agent.run_due()
    orders.insert("orders", (1, "a", 1, None))
    orders.clock.advance(4.9)
    assert agent.run_due() == 0
    orders.clock.advance(0.1)
    assert agent.run_due() == 1
    assert len(orders.changes("dbo_orders")) == 1


def test_changed_parameters_take_effect_at_the_next_start(orders, agent):
    agent.run_due()
    change(orders, "capture", pollinginterval=60)
    orders.clock.advance(5)
    assert agent.run_due() == 1
    stop(orders, "capture")
    start(orders, "capture")
    assert agent.run_due() == 1
    orders.clock.advance(59)
    assert agent.run_due() == 0
    orders.clock.advance(1)
    assert agent.run_due() == 1


def test_one_time_job_ends_after_maxscans_cycles(orders, agent):
    stop(orders, "capture")
    change(orders, "capture", continuous=False, maxtrans=2, maxscans=2)
    for number in range(5):
        orders.insert("orders", (number, "n", 1, None))
    start(orders, "capture")
    agent.run_due()
    assert len(orders.changes("dbo_orders")) == 4
    assert not is_running(orders.engine, orders.database, "capture")


def test_interval_of_zero_waits_for_commits_only(orders, agent):
    stop(orders, "capture")
    change(orders, "capture", pollinginterval=0)
    start(orders, "capture")
    agent.run_due()
    assert agent.run_due() == 0
    orders.insert("orders", (1, "a", 1, None))
    assert agent.run_due() == 1
    assert len(orders.changes("dbo_orders")) == 1


def test_stopped_job_captures_nothing_and_nothing_is_lost(orders, agent):
    stop(orders, "capture")
    orders.insert("orders", (1, "a", 1, None))
    orders.clock.advance(60)
    agent.run_due()
    assert orders.changes("dbo_orders") == []
    start(orders, "capture")
    agent.run_due()
    assert len(orders.changes("dbo_orders")) == 1


def test_cleanup_runs_daily_at_two(orders, agent):
    agent.run_due()
    orders.insert("orders", (1, "a", 1, None))
    orders.scan()
    orders.clock.advance(4 * 24 * HOUR_S)
    orders.insert("orders", (2, "b", 1, None))
    orders.scan()
    midnight = orders.clock.now_ticks() // TICKS_PER_DAY * TICKS_PER_DAY + TICKS_PER_DAY
    orders.clock.set(midnight + 2 * HOUR_S * 10_000_000 - 1)
    agent.run_due()  # the clock passed earlier two o'clocks: that run is made up for
    orders.clock.advance(4 * 24 * HOUR_S)
    orders.insert("orders", (3, "c", 1, None))
    orders.scan()
    agent.run_due()
    assert [r["id"] for r in orders.changes("dbo_orders")] == [3]


def test_restarted_agent_starts_the_capture_job_again(orders):
    runtime(orders.engine).jobs.clear()
    agent = Agent(orders.engine, "manual")
    agent.start()
    assert is_running(orders.engine, orders.database, "capture")
    assert not is_running(orders.engine, orders.database, "cleanup")
    agent.close()


def test_stopped_agent_refuses_but_tables_can_be_enabled(shop):
    agent = Agent(shop.engine, "stopped")
    agent.start()
    shop.create("t", Column(0, "id", INT, False))
    notices = enable_table(shop.engine, shop.database, EnableTable("dbo", "t", None))
    assert [n.number for n in notices] == [22022, 22022]
    with pytest.raises(SqlError) as error:
        start(shop, "capture")
    assert error.value.number == 22022
    agent.close()


def test_automatic_agent_captures_by_itself_and_ends_at_once(orders):
    stop(orders, "capture")
    change(orders, "capture", pollinginterval=0)
    agent = Agent(orders.engine, AgentMode.AUTOMATIC)
    agent.start()
    orders.insert("orders", (1, "a", 1, None))
    tick = threading.Event()
    for _ in range(3000):
        if orders.changes("dbo_orders"):
            break
        tick.wait(0.01)
    agent.close()
    assert [r["id"] for r in orders.changes("dbo_orders")] == [1]


def test_a_running_capture_job_keeps_the_log_between_its_scans(orders):
    stop(orders, "capture")
    change(orders, "capture", pollinginterval=0)
    agent = Agent(orders.engine, AgentMode.AUTOMATIC)
    agent.start()
    try:
        orders.insert("orders", (1, "a", 1, None))
        assert wait_for_changes(orders, "dbo_orders") == [1]
        with pytest.raises(SqlError, match="sp_replcmds") as refused:
            orders.scan(session_id=60)
        assert refused.value.number == 22903
        stop(orders, "capture")
        orders.insert("orders", (2, "b", 1, None))
        scan_when_free(orders)
    finally:
        agent.close()
    assert [r["id"] for r in orders.changes("dbo_orders")] == [1, 2]


def scan_when_free(shop):
    """A job that was stopped may be leaving its last scan still."""
    pause = threading.Event()
    for _ in range(3000):
        try:
            return shop.scan(session_id=60)
        except SqlError as error:
            if error.number != 22903:
                raise
        pause.wait(0.01)
    return shop.scan(session_id=60)


def test_dropped_database_leaves_nothing_to_the_next_of_its_id(orders, agent):
    orders.insert("orders", (1, "a", 1, None))
    orders.engine.drop_database("shop")
    agent.run_due()
    database = orders.engine.create_database("shop")
    assert database.database_id == orders.database.database_id
    orders.database = database
    enable_database(orders.engine, database)
    orders.create("orders", Column(0, "id", INT, False))
    orders.track("orders")
    orders.insert("orders", (7,))

    orders.scan()

    assert [r["id"] for r in orders.changes("dbo_orders")] == [7]
    assert is_running(orders.engine, database, "capture")


def failing_scan(shop, meanwhile=lambda: None):
    """A scan that records an error of its own; ``meanwhile`` is called within it."""

    asked = []

    def stopped() -> bool:
        asked.append(1)
        if len(asked) == 1:
            meanwhile()
            raise messages.error(22859, procedure="sp_cdc_scan")
        return False

    shop.insert("orders", (1, "a", 1, None))
    with pytest.raises(SqlError, match="22859"):
        scan(shop.engine, shop.database, stopped=stopped)


def test_the_next_database_of_an_id_does_not_show_the_scans_of_a_dropped_one(orders):
    failing_scan(orders)
    state = runtime(orders.engine)
    assert [error.number for error in state.history(orders.database).errors()] == [22859]
    orders.engine.drop_database("shop")
    database = orders.engine.create_database("shop")
    assert database.database_id == orders.database.database_id

    assert state.history(database).errors() == []
    assert state.history(database).rows() == []


def test_a_scan_that_fails_after_its_database_was_disabled_is_not_of_the_next_enabling(orders):
    state = runtime(orders.engine)

    failing_scan(orders, lambda: state.forget(orders.database))

    assert state.history(orders.database).errors() == []


def test_a_failure_is_recorded_when_capturing_what_came_before_it_fails_too(orders, monkeypatch):
    """The disk fills, say, between the failure and the second attempt."""
    orders.insert("orders", (1, "a", 1, None))
    orders.insert("orders", (2, "b", 1, None))
    failures = [messages.error(22859), messages.error(22860)]
    run = ScanCycle.run

    def failing(cycle):
        cycle.taken = 1
        raise failures.pop(0)

    monkeypatch.setattr(ScanCycle, "run", failing)
    with pytest.raises(SqlError) as error:
        orders.scan()
    monkeypatch.setattr(ScanCycle, "run", run)

    assert error.value.number == 22859
    recorded = runtime(orders.engine).history(orders.database).errors()
    assert sorted(entry.number for entry in recorded) == [22859, 22860]
    orders.scan()
    assert [row["id"] for row in orders.changes("dbo_orders")] == [1, 2]


def wait_for_changes(shop, instance):
    pause = threading.Event()
    for _ in range(1500):
        if shop.changes(instance):
            break
        pause.wait(0.02)
    return [row["id"] for row in shop.changes(instance)]


def test_agent_that_was_stopped_is_started(orders):
    made = Agent(orders.engine, AgentMode.STOPPED)
    made.start()
    try:
        orders.insert("orders", (1, "a", 1, None))
        made.set_running(True)
        assert wait_for_changes(orders, "dbo_orders") == [1]
        made.set_running(False)
        with pytest.raises(SqlError) as error:
            start(orders, "capture")
        assert error.value.number == 22022
    finally:
        made.close()


def test_job_of_an_open_transaction_runs_when_it_commits(orders):
    made = Agent(orders.engine, AgentMode.AUTOMATIC)
    made.start()
    try:
        with orders.engine.write() as connection:
            jobs.drop_job(connection, orders.engine, orders.database, "capture")
        orders.insert("orders", (1, "a", 1, None))
        with orders.engine.write() as connection:
            jobs.add_job(connection, orders.engine, orders.database, "capture", JobOptions())
            jobs.start_job(connection, orders.engine, orders.database, "capture")
            threading.Event().wait(0.05)  # the agent has been woken, and must wait for the commit
        assert wait_for_changes(orders, "dbo_orders") == [1]
    finally:
        made.close()


def test_a_delayed_start_reads_its_parameters_when_it_begins(orders):
    agent = Agent(orders.engine, AgentMode.MANUAL, start_delay_s=2.0)
    agent.start()
    try:
        orders.insert("orders", (1, "a", 1, None))
        assert agent.run_due() == 0
        change(orders, "capture", pollinginterval=60)
        orders.clock.advance(1.9)
        assert agent.run_due() == 0
        orders.clock.advance(0.1)
        assert agent.run_due() == 2  # the capture job, and the cleanup job, which enabling starts
        assert len(orders.changes("dbo_orders")) == 1
        orders.clock.advance(59)
        assert agent.run_due() == 0
        orders.clock.advance(1)
        assert agent.run_due() == 1
    finally:
        agent.close()


def test_a_delayed_job_that_waits_for_commits_waits_for_its_start_first(orders):
    change(orders, "capture", pollinginterval=0)
    agent = Agent(orders.engine, AgentMode.MANUAL, start_delay_s=2.0)
    agent.start()
    try:
        orders.insert("orders", (1, "a", 1, None))
        assert agent.run_due() == 0
        stop(orders, "capture")
        orders.clock.advance(2)
        assert agent.run_due() == 1  # the cleanup job
        assert orders.changes("dbo_orders") == []
        start(orders, "capture")
        assert agent.run_due() == 0
        orders.clock.advance(2)
        assert agent.run_due() == 1
        assert len(orders.changes("dbo_orders")) == 1
    finally:
        agent.close()


def test_who_reads_the_log_by_hand_while_another_does_is_told_so(orders):
    reading = runtime(orders.engine).scanning
    with (
        reading(orders.database, 60),
        pytest.raises(SqlError, match="18752: Only one Log Reader Agent"),
        reading(orders.database, 61, taken=18752),
    ):
        pass
