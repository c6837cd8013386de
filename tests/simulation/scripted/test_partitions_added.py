"""More partitions of a data topic would move keys: its table stops until it is asked for."""

from __future__ import annotations

from collections.abc import Callable

from tests.simulation.kafka.broker import Partition
from tests.simulation.scripted.lives import Life, change_rows, second_life
from tests.simulation.scripted.test_stray_records import stopped

_TOPIC = "sim.shop.dbo.orders"


def add_partition(life: Life) -> None:
    partitions = life.sim.broker.topics[_TOPIC].partitions
    partitions.append(Partition(_TOPIC, len(partitions)))


def ends(life: Life) -> list[int]:
    return [partition.end for partition in life.sim.broker.topics[_TOPIC].partitions]


def live_on(
    life: Life, is_over: Callable[[], bool], happens: Callable[[], None] = lambda: None
) -> None:
    """Publish while the log is scanned: a snapshot waits for that."""

    def scan() -> None:
        happens()
        if life.ticks % 100 == 0:
            life.sim.scan(marks_time=True)

    life.live(per_call=scan, is_over=is_over)


def live_and_then(
    life: Life, happens: Callable[[], None], *, is_over: Callable[[], bool] = lambda: True
) -> None:
    """Publish; something happens once, after the topics were looked at."""
    coming = [happens]

    def per_call() -> None:
        if coming and life.sim.published.closed > before:
            coming.pop()()

    before = life.sim.published.closed
    life.live(per_call=per_call, is_over=lambda: not coming and is_over())
    assert not coming


def test_a_restart_with_more_partitions_publishes_nothing_of_the_table_until_it_is_asked_for():
    life = second_life(3)
    add_partition(life)
    before = ends(life)

    for _ in range(2):  # the second start finds it stopped
        life.live()

        assert life.is_out
        assert stopped(life) == {_TOPIC}
        assert ends(life) == before
        change_rows(life.sim, 1)

    life.sim.signals.ask_for("orders")
    live_on(life, lambda: not stopped(life))

    assert stopped(life) == set()
    assert all(now > then for now, then in zip(ends(life), before, strict=True))

    change_rows(life.sim, 1)
    life.live()

    assert life.is_out
    assert stopped(life) == set(), "a later start compares with the new number"


def test_a_running_publisher_keeps_the_old_number_until_its_next_start():
    life = second_life(3)

    then: list[int] = []

    def grow() -> None:
        then.extend(ends(life))
        add_partition(life)
        change_rows(life.sim, 6)

    live_and_then(life, grow)

    assert life.is_out
    assert stopped(life) == set()
    assert ends(life)[0] > then[0]
    assert ends(life)[1] == 0


def test_a_snapshot_of_a_table_that_goes_on_takes_the_new_number():
    life = second_life(3)

    def grow_and_ask() -> None:
        add_partition(life)
        life.sim.signals.ask_for("orders")

    live_and_then(life, grow_and_ask, is_over=lambda: ends(life)[1] > 0)
    change_rows(life.sim, 1)
    live_on(life, lambda: not stopped(life))

    assert ends(life)[1] > 0
    assert life.is_out
    assert stopped(life) == set(), "a start finds the number that the snapshot began with"


def test_a_snapshot_that_is_being_read_keeps_the_number_that_it_began_with():
    life = second_life(3)
    life.sim.signals.ask_for("orders")
    steps = [lambda: life.sim.signals.ask_for("orders"), lambda: add_partition(life)]

    def grow_and_ask() -> None:
        if steps and stopped(life):
            steps.pop()()

    live_on(life, lambda: not steps and not stopped(life), grow_and_ask)

    assert stopped(life) == set()
    assert ends(life)[1] == 0
