"""Looks at partitions that find a table captured by no instance, or by one that forbids a switch.

A replica that redoes late shows the first; two instances with different ``partition_switch`` the
second.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from tailrace_publisher.daemon.tables import switches
from tests.simulation.actions import ACTIONS
from tests.simulation.ports import replaced
from tests.simulation.scripted.lives import Life, second_life
from tests.simulation.sqlserver.rows import Instance, Table

_NAME = "orders"
_TOPIC = f"sim.shop.dbo.{_NAME}"


def orders(life: Life) -> Table:
    return next(t for t in life.sim.group.database.tables.values() if t.name == _NAME)


def instances(life: Life) -> list[Instance]:
    return life.sim.group.database.instances_of(orders(life).object_id)


@contextmanager
def unseen(life: Life) -> Iterator[None]:
    """No look at the partitions sees an instance of the table; the catalog shows them."""
    look = switches.captured_partitions

    def looked(connection: Any) -> Any:
        known = life.sim.group.database.instances
        before = dict(known)
        for instance in instances(life):
            del known[instance.name]
        try:
            return look(connection)
        finally:
            known.update(before)

    with replaced(switches, "captured_partitions", looked):
        yield


def switch_out(life: Life) -> None:
    """Rows leave the table, until one of them is of it."""
    before, number = life.sim.switches, 0
    while life.sim.switches == before or orders(life).rows:
        ACTIONS["switch_out"](life.sim, random.Random(number))
        number += 1


def fill(life: Life) -> None:
    """Transactions, until the table has rows."""
    number = 0
    while not orders(life).rows:
        ACTIONS["transaction"](life.sim, random.Random(number))
        number += 1


def live_on(life: Life) -> None:
    """Publish until everything is out, for two heartbeats at least, while the log is scanned."""

    def scan() -> None:
        if life.ticks % 100 == 0:
            life.sim.scan(marks_time=life.ticks % 300 == 0)

    life.live(per_call=scan, is_over=lambda: life.ticks > 1200)
    assert life.is_out


def stopped(life: Life) -> set[str]:
    newest = life.sim.published.newest
    assert newest is not None
    return set(newest.snapshotting)


def test_its_rows_are_not_taken_for_switched() -> None:
    life = second_life(3)
    with unseen(life):
        live_on(life)
    live_on(life)

    assert stopped(life) == set()


def test_a_later_switch_is_noticed() -> None:
    life = second_life(3)
    with unseen(life):
        live_on(life)
    switch_out(life)
    live_on(life)

    assert _TOPIC in stopped(life)


def test_it_does_not_begin_before_its_partitions_are_seen() -> None:
    life = second_life(3)
    switch_out(life)
    live_on(life)
    fill(life)
    live_on(life)  # its changes pass while it is stopped: those of a pending table are published
    assert _TOPIC in stopped(life)
    published = [p.end for p in life.sim.broker.topics[_TOPIC].partitions]
    for topic in sorted(stopped(life)):
        life.sim.signals.ask_for(topic.rpartition(".")[2])

    with unseen(life):
        live_on(life)
    assert [p.end for p in life.sim.broker.topics[_TOPIC].partitions] == published

    live_on(life)
    assert stopped(life) == set()


def test_an_instance_that_allows_a_switch_after_one_that_did_not_is_no_switch() -> None:
    life = second_life(3)
    (instance,) = instances(life)
    instance.partition_switch = False
    live_on(life)
    instance.partition_switch = True
    live_on(life)
    assert stopped(life) == set()

    switch_out(life)
    live_on(life)
    assert _TOPIC in stopped(life)


def test_a_switch_before_an_instance_that_forbids_one_is_noticed() -> None:
    life = second_life(3)
    switch_out(life)
    (instance,) = instances(life)
    instance.partition_switch = False
    live_on(life)

    assert _TOPIC in stopped(life)
