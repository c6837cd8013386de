"""Runs scenarios: what is wrong with one, and the smallest one that is wrong in the same way."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final

import structlog

from tests.simulation.building import build
from tests.simulation.judge.oracle import judge
from tests.simulation.judge.reader import Wrong
from tests.simulation.scenario import Scenario
from tests.simulation.world import Finding

_RUNS_MAX: Final = 300


@dataclass(frozen=True, slots=True)
class Failure:
    """What is wrong with a run.

    Attributes:
        kind: of a finding, for comparing: what is wrong without the LSNs.
        text: what is wrong.
    """

    kind: str
    text: str


def check(scenario: Scenario, *, is_verbose: bool = False) -> Failure | None:
    """Run a scenario and judge it; None when all is well."""
    simulation = build(scenario, is_verbose=is_verbose)
    with _log_taken(simulation.told.listen):
        try:
            simulation.run()
            judge(simulation)
        except (Finding, Wrong) as error:
            return Failure(_kind(error), str(error))
    return None


def _kind(error: BaseException) -> str:
    """The words of a finding that do not change with its history."""
    words = str(error).split()
    plain = [word for word in words if not any(sign.isdigit() for sign in word)]
    return f"{type(error).__name__} {' '.join(plain[:5])}"


def minimise(scenario: Scenario, failure: Failure) -> tuple[Scenario, Failure]:
    """Leave steps out, many at a time and then one by one, while it fails in the same way."""
    runs = 0
    size = max(1, len(scenario.steps) // 2)
    while size and runs < _RUNS_MAX:
        begin = 0
        while begin < len(scenario.steps) and runs < _RUNS_MAX:
            smaller = scenario.without(begin, begin + size)
            runs += 1
            found = check(smaller)
            if found is not None and found.kind == failure.kind:
                scenario, failure = smaller, found
            else:
                begin += size
        size //= 2
    return scenario, failure


def report(scenario: Scenario, failure: Failure) -> str:
    """A failure for people: what is wrong, in which surroundings, after which steps."""
    lines = [
        f"seed {scenario.seed}: {failure.text}",
        f"  repeat: python -m tests.simulation --seed {scenario.seed}",
        f"  around: {scenario.around}",
        f"  options: { {k: v for k, v in scenario.options.items() if k not in _DULL} }",
        f"  {len(scenario.steps)} steps:",
        *(f"    after {step.after} calls: {step.kind} {step.seed}" for step in scenario.steps),
    ]
    return "\n".join(lines)


_DULL: Final = frozenset({"source", "registry", "prefix"})


@contextmanager
def _log_taken(listen: object) -> Iterator[None]:
    """The structured log goes to the run, and the client's own log nowhere."""
    before = structlog.get_config()
    assert callable(listen)
    listen()
    logging.disable(logging.CRITICAL)
    try:
        yield
    finally:
        logging.disable(logging.NOTSET)
        structlog.configure(**before)
