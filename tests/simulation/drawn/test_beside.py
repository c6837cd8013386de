"""Topics beside the data in the model: what is in them agrees with the events, whatever happens."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from tests.simulation.building import build
from tests.simulation.checking import check, report
from tests.simulation.drawing import draw
from tests.simulation.judge.published import decode
from tests.simulation.scenario import Scenario
from tests.simulation.simulation import Simulation

_SEEDS = 10
_SIGNALS = "sim.signals"
"""What operators write, no Avro."""


def scenario_of(seed: int) -> Scenario:
    drawn = draw(seed)
    beside = {"transaction_metadata": True, "schema_changes": True}
    return replace(drawn, options={**drawn.options, **beside})


def records(sim: Simulation, dots: int) -> Iterator[tuple[str, dict[str, Any]]]:
    """Topic and value of the committed records of topics whose names have so many dots."""
    for topic in sim.broker.topics.values():
        for partition in topic.partitions:
            for entry in partition.committed():
                if entry.value and topic.name.count(".") == dots and topic.name != _SIGNALS:
                    yield topic.name, decode(sim.schemas, entry.value)


@pytest.mark.parametrize("seed", range(_SEEDS))
def test_transactions_are_numbered_and_schema_changes_told_once(seed: int) -> None:
    scenario = scenario_of(seed)
    failure = check(scenario)
    assert failure is None, report(scenario, failure)

    sim = build(scenario)
    sim.told.listen()
    sim.run()
    orders: dict[str, list[int]] = defaultdict(list)
    counts: dict[str, Counter[str]] = defaultdict(Counter)
    for topic, event in records(sim, 3):
        said = event["transaction"]
        if event["source"]["snapshot"] is not None:
            assert said is None
            continue
        orders[said["id"]].append(said["total_order"])
        counts[said["id"]][topic.removeprefix("sim.")] += 1
    for numbers in orders.values():
        assert sorted(numbers) == list(range(1, len(numbers) + 1))

    boundaries = [r for topic, r in records(sim, 1) if topic == "sim.transaction"]
    assert Counter(r["id"] for r in boundaries if r["status"] == "BEGIN") == Counter(orders.keys())
    ends = [r for r in boundaries if r["status"] == "END"]
    assert len({r["id"] for r in ends}) == len(ends)
    for end in ends:
        told = {c["data_collection"]: c["event_count"] for c in end["data_collections"]}
        assert told == counts[end["id"]]

    changes = Counter((r["table"], r["lsn"], r["ddl"]) for _, r in records(sim, 2))
    assert set(changes.values()) <= {1}
