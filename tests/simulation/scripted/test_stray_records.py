"""Somebody else's producer writes into data topics while Kafka transactions are open there."""

from __future__ import annotations

from tailrace_publisher.runtime import Step
from tests.simulation.kafka.broker import Fate
from tests.simulation.scripted.lives import Life, second_life

_TOPIC = "sim.shop.dbo.orders"


def write_by_hand(life: Life, topics: list[str]) -> None:
    """A record into each topic's first partition, committed at once."""
    broker = life.sim.broker
    broker.init_producer("somebody", 10**9)
    transaction = broker.begin("somebody")
    for topic in topics:
        broker.topics[topic].partitions[0].append(b"k", b"by hand", transaction)
    broker.end("somebody", Fate.COMMITTED)
    broker.write_markers()


def stopped(life: Life) -> set[str]:
    """Topics of the tables that the newest progress record leaves out of the cut."""
    newest = life.sim.published.newest
    assert newest is not None
    return set(newest.snapshotting)


def test_a_stray_record_in_every_topic_costs_a_retry() -> None:
    life = second_life(6, {"linger_ms": 60_000, "heartbeat_s": 300})
    topics = [name for name in life.sim.broker.topics if ".dbo." in name]
    assert len(topics) == 4
    pages = 0

    def stray(step: Step) -> None:
        nonlocal pages
        pages += step is Step.SENT
        if pages == 8:
            pages += 1
            write_by_hand(life, topics)

    life.live(on_step=stray)

    assert life.is_out
    assert life.retried() == {"ForeignRecords": 1}
    assert stopped(life) == set()


def test_a_producer_that_keeps_writing_stops_that_table_alone() -> None:
    life = second_life(3, {"linger_ms": 60_000, "heartbeat_s": 300})
    life.live(
        on_step=lambda step: write_by_hand(life, [_TOPIC]) if step is Step.SENT else None,
        ticks_max=10_000,
    )

    assert life.is_out
    assert life.retried() == {"ForeignRecords": 2}
    assert stopped(life) == {_TOPIC}
    assert life.sim.told.stopped.keys() == {_TOPIC}
