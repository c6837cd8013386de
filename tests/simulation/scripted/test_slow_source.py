"""A source so slow that a Kafka transaction inside one source transaction grows old."""

from __future__ import annotations

from tests.simulation.scripted.lives import second_life


def test_a_source_slower_than_the_brokers_wait_makes_progress() -> None:
    life = second_life(6)
    sim = life.sim

    def take_long() -> None:  # each call of the source, and of Kafka
        sim.world.elapsed_us += 500_000

    kafka = {**sim.scenario.options["kafka"], "transaction_timeout_s": 10}
    life.live({"kafka": kafka}, per_call=take_long)

    assert life.is_out
    assert life.retried() == {}
