"""Recorded durations: the order among workers, and which tests are slow.

``make durations`` records them on a quiet machine, in durations.json. Judging by the record instead
of the run keeps a slow machine from failing tests.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Mapping
from functools import cache
from pathlib import Path

import pytest

from tests.suite.groups import group_of

RECORD = Path(__file__).parents[1] / "durations.json"
ROOT = RECORD.parents[1]
SLOW_S = 10.0
"""A test whose call takes longer needs the mark ``slow``."""
KEPT_S = 1.0
"""Shorter calls are not in the record."""
UNKNOWN_S = 5.0
"""How long a group may take that nobody has recorded."""


class Durations:
    """Seconds of groups with their fixtures, and of the calls of tests."""

    def __init__(self, groups: Mapping[str, float], calls: Mapping[str, float]) -> None:
        self._groups = dict(groups)
        self._calls = dict(calls)

    @classmethod
    @cache
    def load(cls) -> Durations:
        """The record."""
        record = json.loads(RECORD.read_text(encoding="utf-8"))
        return cls(record["groups"], record["calls"])

    def of_group(self, nodeid: str) -> float:
        """How long the test's group takes."""
        return self._groups.get(group_of(nodeid), UNKNOWN_S)

    def is_slow(self, nodeid: str) -> bool:
        """Whether the test's call took more than SLOW_S."""
        return self._calls.get(nodeid, 0.0) > SLOW_S

    def renewed(self, groups: Mapping[str, float], calls: Mapping[str, float]) -> Durations:
        """With what a run took; of other files it keeps what it has, if they exist."""
        ran = {file_of(group) for group in groups}

        def stays(name: str) -> bool:
            return file_of(name) not in ran and (ROOT / file_of(name)).exists()

        return Durations(
            {name: s for name, s in self._groups.items() if stays(name)} | dict(groups),
            {name: s for name, s in self._calls.items() if stays(name)} | dict(calls),
        )

    def write(self, path: Path = RECORD) -> None:
        """Write the record, sorted, so that two of them can be compared."""
        record = {
            "groups": {k: round(v, 1) for k, v in sorted(self._groups.items())},
            "calls": {k: round(v, 1) for k, v in sorted(self._calls.items()) if v >= KEPT_S},
        }
        text = json.dumps(record, indent=0, ensure_ascii=False)
        path.write_text(text + "\n", encoding="utf-8")


def file_of(name: str) -> str:
    """The file of a test or of a group."""
    return name.removeprefix("spark ").partition("::")[0]


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--record-durations",
        action="store_true",
        help="write what the tests take; see durations.py",
    )


def pytest_configure(config: pytest.Config) -> None:
    if config.getoption("--record-durations") and not hasattr(config, "workerinput"):
        config.pluginmanager.register(Recorder(), "durations-recorder")


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Among workers the longest groups begin first: long ones at the end would leave some idle."""
    if hasattr(config, "workerinput"):
        durations = Durations.load()
        items.sort(key=lambda item: -durations.of_group(item.nodeid))


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Fail a slow test without the mark."""
    if Durations.load().is_slow(item.nodeid) and item.get_closest_marker("slow") is None:
        pytest.fail(f"it was recorded with more than {SLOW_S:g} s: mark it slow, with the reason")


class Recorder:
    """Adds up what the tests of a run take, and writes the record at its end."""

    def __init__(self) -> None:
        self._groups: dict[str, float] = defaultdict(float)
        self._calls: dict[str, float] = {}

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self._groups[group_of(report.nodeid)] += report.duration
        if report.when == "call":
            self._calls[report.nodeid] = report.duration

    def pytest_sessionfinish(self, exitstatus: int) -> None:
        if exitstatus == pytest.ExitCode.OK:
            Durations.load().renewed(self._groups, self._calls).write()
