"""Rows that are switched out of a table are noticed, whatever else happens (ADR 0055)."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest

from tailrace_publisher.daemon.tables.switches import Switches
from tests.simulation.checking import check, report
from tests.simulation.drawing import draw
from tests.simulation.scenario import Scenario, Step

_SEEDS = 20


def scenario_of(seed: int) -> Scenario:
    """A drawn scenario, with two switches among its steps."""
    drawn = draw(seed)
    rng = random.Random(seed)
    steps = list(drawn.steps)
    for _ in range(2):
        step = Step("switch_out", rng.randrange(8), rng.randrange(1 << 30))
        steps.insert(rng.randrange(len(steps) // 4, len(steps)), step)
    return replace(drawn, steps=tuple(steps))


@pytest.mark.parametrize("seed", range(_SEEDS))
def test_a_switch_is_noticed(seed: int) -> None:
    scenario = scenario_of(seed)
    failure = check(scenario)
    assert failure is None, report(scenario, failure)


def test_a_switch_that_nobody_looks_for_is_found_by_the_judge(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    look = Switches.look

    def looks_once(self: Switches, finish: object) -> None:
        if self.is_awaited():
            look(self, lambda: None)

    monkeypatch.setattr(Switches, "look", looks_once)
    assert any(check(scenario_of(seed)) is not None for seed in range(_SEEDS))
