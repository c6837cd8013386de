"""Each old fault, put back, is found: here by one seed, recorded from a search from 0 on."""

from __future__ import annotations

import pytest

from tests.simulation.checking import check
from tests.simulation.mutants import SIGNS, put_back
from tests.simulation.scenario import draw

FOUND_BY = {"1": 2518, "2": 5, "3": 7, "4": 42, "6": 23, "7": 163, "9": 5, "stops-not-written": 187}
"""``python -m tests.simulation --mutant N --seeds 10000`` finds the seed anew."""


@pytest.mark.parametrize("name", sorted(FOUND_BY))
def test_a_fault_that_is_put_back_is_found(name: str) -> None:
    scenario = draw(FOUND_BY[name])
    assert check(scenario) is None
    with put_back(name):
        failure = check(scenario)
    assert failure is not None, "look for another seed"
    assert any(sign in failure.text for sign in SIGNS[name]), failure.text
