"""Histories that found something, kept as they are: seeds draw others when the model grows."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import Final

from tests.simulation.scenario import Scenario, Step, Surroundings

FOLDER: Final = Path(__file__).parent / "histories"


def save(scenario: Scenario, name: str) -> Path:
    """Keep a history under a name."""
    FOLDER.mkdir(exist_ok=True)
    path = FOLDER / f"{name}.json"
    path.write_text(_text(scenario), encoding="utf-8")
    return path


def load(name: str) -> Scenario:
    """A history that was kept."""
    kept = json.loads((FOLDER / f"{name}.json").read_text(encoding="utf-8"))
    return Scenario(
        kept["seed"],
        Surroundings(**kept["around"]),
        kept["options"],
        tuple(Step(*step) for step in kept["steps"]),
    )


def names() -> list[str]:
    """Names of all that are kept."""
    return sorted(path.stem for path in FOLDER.glob("*.json"))


def _text(scenario: Scenario) -> str:
    """One line for each step, so that a change of one is a change of a line."""
    steps = ",\n  ".join(json.dumps([s.kind, s.after, s.seed]) for s in scenario.steps)
    around, options = json.dumps(asdict(scenario.around)), json.dumps(scenario.options)
    return (
        f'{{\n "seed": {scenario.seed},\n "around": {around},\n "options": {options},\n'
        f' "steps": [\n  {steps}\n ]\n}}\n'
    )
