"""What a healthy source brings now and then costs a statement or a table, not a session."""

from __future__ import annotations

import pytest

from tailrace_publisher.errors import SourceBusy
from tailrace_publisher.runtime import Step
from tests.simulation.scripted.lives import Life, second_life

_DEADLOCK = 1205
_LOCK_TIMEOUT = 1222


def once_inside_a_transaction(life: Life, *errors: int) -> None:
    """Publish, and have the source refuse some statements after a few pages."""
    pages = 0

    def refuse(step: Step) -> None:
        nonlocal pages
        pages += step is Step.PAGE
        if pages == 5:
            pages += 1
            life.sim.source.errors.extend(errors)

    life.sim.told.starts.clear()
    life.live({"linger_ms": 60_000, "heartbeat_s": 300}, on_step=refuse)


@pytest.mark.parametrize("number", [_DEADLOCK, _LOCK_TIMEOUT])
def test_a_statement_that_loses_twice_is_sent_a_third_time(number: int) -> None:
    life = second_life(6)

    once_inside_a_transaction(life, number, number)

    assert life.is_out
    assert life.retried() == {}
    assert len(life.sim.told.starts) == 1


def test_a_statement_that_loses_each_time_costs_a_poll() -> None:
    life = second_life(6)

    once_inside_a_transaction(life, *[_DEADLOCK] * 3)

    assert life.is_out
    assert life.retried() == {SourceBusy.__name__: 1}
    assert len(life.sim.told.starts) == 1


def test_a_source_that_is_busy_for_long_gets_new_connections() -> None:
    life = second_life(6)

    once_inside_a_transaction(life, *[_DEADLOCK] * 12)

    assert life.is_out
    assert life.retried() == {SourceBusy.__name__: 4}
    assert len(life.sim.told.starts) == 2


def test_a_table_that_fails_leaves_the_session() -> None:
    life = second_life(6)
    sim = life.sim
    orders = next(t for t in sim.group.database.tables.values() if t.name == "orders")
    sim.told.starts.clear()

    def refuse(step: Step) -> None:
        if step is Step.WINDOW:
            sim.source.features.refused.add(orders.object_id)

    life.live({"linger_ms": 60_000}, on_step=refuse)

    assert life.is_out
    assert sim.told.stopped.keys() == {"sim.shop.dbo.orders"}
    assert len(sim.told.starts) == 1
