"""The files for a public forge: of the form that it reads, and calling what a developer calls."""

from __future__ import annotations

import json
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml
from check_jsonschema.builtin_schemas import get_builtin_schema
from jsonschema import Draft7Validator

ROOT = Path(__file__).parents[2]


def read(path: str) -> Any:
    # YAML 1.1 reads the key `on` as true.
    return yaml.load((ROOT / path).read_text("utf-8"), yaml.BaseLoader)  # noqa: S506 - no objects


@pytest.mark.parametrize("name", ["bug", "idea"])
def test_an_issue_form_is_of_its_schema(name: str):
    form = yaml.safe_load((ROOT / f".github/ISSUE_TEMPLATE/{name}.yml").read_text("utf-8"))
    judge = Draft7Validator(get_builtin_schema("vendor.github-issue-forms"))
    assert [error.message for error in judge.iter_errors(form)] == []


def test_the_workflow_runs_what_a_change_must_pass():
    schema = get_builtin_schema("vendor.github-workflows")
    workflow = read(".github/workflows/ci.yml")
    typed = yaml.safe_load((ROOT / ".github/workflows/ci.yml").read_text("utf-8"))
    typed["on"] = typed.pop(True)
    assert [e.message for e in Draft7Validator(schema).iter_errors(typed)] == []
    job = workflow["jobs"]["ci"]
    steps = job["steps"]
    assert steps[-1] == {"run": "${{ matrix.run }}"}
    assert job["strategy"]["matrix"] == {"run": [".ci/run", "make test-sink"]}
    run = (ROOT / ".ci" / "run").read_text("utf-8").splitlines()
    assert {"make lint", "make test", "make test-emulator"} <= set(run)
    (python,) = [s["with"]["python-version"] for s in steps if "python" in s.get("uses", "")]
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    assert project["requires-python"] == f">={python}"


def test_hook_and_container_call_targets_that_exist():
    (repository,) = read(".pre-commit-config.yaml")["repos"]
    container = json.loads((ROOT / ".devcontainer" / "devcontainer.json").read_text("utf-8"))
    makefile = (ROOT / "Makefile").read_text("utf-8")
    for command in (repository["hooks"][0]["entry"], container["postCreateCommand"]):
        make, target = command.split()
        assert make == "make"
        assert f"\n{target}: " in makefile
