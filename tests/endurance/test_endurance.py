"""Half a minute of the long run: three brokers, and parts that die."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.endurance.run import Plan, run

SEED = 1


@pytest.mark.kafka
@pytest.mark.nightly("tests/pipeline/daemon/test_chaos.py, test_kill.py and tests/simulation")
@pytest.mark.slow("parts are killed at random for half a minute")
@pytest.mark.timeout(900)
def test_nothing_is_lost_while_parts_die(tmp_path: Path):
    told: list[str] = []
    verdict, done = run(Plan(0.4, SEED), tmp_path, told.append)
    assert not verdict.problems, f"{done}\n{told}\n{verdict.problems}"
    assert verdict.events > 100, done
