"""Each old fault, put back, is found: here by one history that a search over seeds has found."""

from __future__ import annotations

import pytest

from tests.simulation import kept
from tests.simulation.checking import check
from tests.simulation.mutants import SIGNS, put_back

_PREFIX = "mutant_"
_KEPT = [name.removeprefix(_PREFIX) for name in kept.names() if name.startswith(_PREFIX)]
"""``python -m tests.simulation --mutant N --seeds 10000`` finds another seed S, and
``--mutant N --seed S --save mutant_N`` keeps its history."""


@pytest.mark.parametrize("name", _KEPT)
def test_a_fault_that_is_put_back_is_found(name: str) -> None:
    scenario = kept.load(f"{_PREFIX}{name}")
    assert check(scenario) is None
    with put_back(name):
        failure = check(scenario)
    assert failure is not None, "look for another history"
    assert any(sign in failure.text for sign in SIGNS[name]), failure.text


def test_each_of_the_old_faults_has_a_history() -> None:
    assert {"1", "2", "3", "4", "6", "7", "9", "9b"} <= set(_KEPT)
