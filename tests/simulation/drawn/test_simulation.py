"""The publisher in the model of what real servers and brokers do: ``tests/simulation``."""

from __future__ import annotations

import pytest

from tests.simulation import kept
from tests.simulation.checking import check, report
from tests.simulation.drawing import draw

_SEEDS = 60
_AT_ONCE = 10


@pytest.mark.parametrize("first", range(0, _SEEDS, _AT_ONCE))
def test_whatever_happens_is_published_once_in_order_and_told_truly(first: int) -> None:
    for seed in range(first, first + _AT_ONCE):
        scenario = draw(seed)
        failure = check(scenario)
        assert failure is None, report(scenario, failure)


@pytest.mark.parametrize("name", [n for n in kept.names() if not n.startswith("mutant_")])
def test_what_was_found_once_stays_mended(name: str) -> None:
    scenario = kept.load(name)
    failure = check(scenario)
    assert failure is None, report(scenario, failure)


def test_a_run_is_a_function_of_its_scenario() -> None:
    from tests.simulation.building import build

    ticks = []
    for _ in range(2):
        simulation = build(draw(3))
        simulation.told.listen()
        simulation.run()
        ticks.append((simulation.world.ticks, simulation.published.records))
    assert ticks[0] == ticks[1]
