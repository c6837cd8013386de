"""A scan that is to alter or drop a change table waits for transactions that hold locks on it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from emulator.tests.unit.cdc.conftest import Shop
from emulator.tests.unit.cdc.test_cleanup_and_locks import change
from emulator.tests.unit.storage.conftest import Background, wait_until_blocked
from tailrace_emulator.cdc import job_runs
from tailrace_emulator.cdc.agent import Agent
from tailrace_emulator.cdc.capture_scan import scan
from tailrace_emulator.cdc.runtime import runtime
from tailrace_emulator.messages.errors import SqlError
from tailrace_emulator.storage import alter, ddl
from tailrace_emulator.storage.model import Column
from tailrace_emulator.storage.transaction import StoreSession
from tailrace_emulator.values.types import decimal_type


@pytest.fixture
def other(orders: Shop) -> Iterator[StoreSession]:
    """With a change row of its own that is not committed."""
    orders.insert("orders", (1, "a", 5, None))
    orders.scan()
    session = StoreSession(orders.engine, 52)
    session.begin()
    change(orders, session, 1, 6)
    yield session
    session.close()


def widen(shop: Shop) -> None:
    column = shop.table("orders").column("amount")
    assert column is not None
    alter.alter_column(
        shop.session,
        shop.database,
        shop.table("orders"),
        column.column_id,
        Column(0, "amount", decimal_type(18, 2)),
        command="ALTER TABLE orders ALTER COLUMN amount decimal(18,2)",
    )


def amounts(shop):
    return [row["amount"] for row in shop.changes("dbo_orders")]


def captured_type(shop):
    made = shop.database.table("cdc", "dbo_orders_CT")
    assert made is not None
    return str(made.column("amount").type)


def run(shop, session):
    return scan(shop.engine, shop.database, session=session)


@pytest.mark.parametrize("end", ["commit", "rollback"])
def test_a_type_change_waits(orders, other, end):
    orders.insert("orders", (2, "b", 7, None))
    widen(orders)
    orders.insert("orders", (3, "c", 8, None))
    running = Background(lambda: run(orders, orders.session))
    wait_until_blocked(orders.engine)
    assert captured_type(orders) == "decimal(9,2)"
    assert amounts(orders) == [5, 7], "what comes before is captured"
    getattr(other, end)()
    running.join()
    assert captured_type(orders) == "decimal(18,2)"
    assert amounts(orders) == [6 if end == "commit" else 5, 7, 8]
    assert runtime(orders.engine).history(orders.database).errors() == []
    assert orders.engine.locks.held() == []


def test_a_dropped_table_waits(orders, other):
    ddl.drop_table(orders.session, orders.database, orders.table("orders"))
    running = Background(lambda: run(orders, orders.session))
    wait_until_blocked(orders.engine)
    assert orders.database.table("cdc", "dbo_orders_CT") is not None
    other.commit()
    running.join()
    assert orders.database.table("cdc", "dbo_orders_CT") is None


def test_a_lock_timeout_ends_the_scan_and_loses_nothing(orders, other):
    widen(orders)
    orders.insert("orders", (3, "c", 8, None))
    orders.session.lock_timeout_ms = 0
    with pytest.raises(SqlError) as raised:
        run(orders, orders.session)
    assert raised.value.number == 1222
    other.commit()
    run(orders, orders.session)
    assert (captured_type(orders), amounts(orders)) == ("decimal(18,2)", [6, 8])


def test_the_agent_does_not_wait_in_place(orders, other):
    agent = Agent(orders.engine, "manual")
    try:
        orders.clock.advance(60)
        widen(orders)
        orders.insert("orders", (3, "c", 8, None))
        agent.run_due()
        agent.run_due()
        assert (captured_type(orders), amounts(orders)) == ("decimal(9,2)", [5])
        assert runtime(orders.engine).history(orders.database).errors() == []
        other.commit()
        agent.run_due()
        assert (captured_type(orders), amounts(orders)) == ("decimal(18,2)", [6, 8])
        assert job_runs.is_running(orders.engine, orders.database, "capture")
    finally:
        agent.close()
