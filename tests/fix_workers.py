"""How the tests are shared out to workers (make test), so that dear fixtures are made once.

Plain pytest runs in one process, what is quick to tell first. With workers every file is a group
that one worker runs in a row, because its fixtures of module scope are made once for it; the tests
of one Spark session are one group, and those groups that take longest begin first.

A scheduler of our own, because pytest-xdist 3.8 cannot tell groups by marker under pytest 9.2.
"""

from __future__ import annotations

from pathlib import PurePosixPath
from typing import Any

import pytest
from xdist.scheduler import LoadScopeScheduling

LONGEST = (
    "end_to_end",
    "sink",
    "testing",
    "endurance",
    "debezium",
    "simulation",
    "clients",
    "pipeline",
    "property",
    "conformance",
)
"""Folders that begin first, in this order: long groups at the end would leave workers idle."""
SPARK_SESSIONS = {
    "end_to_end": "first",
    "sink/test_lake_layout.py": "first",
    "sink/test_restart.py": "first",
    "sink/test_append_once.py": "second",
    "sink/test_log.py": "second",
    "sink/test_lost_changes.py": "second",
    "sink/test_takeover.py": "second",
    "sink": "third",
    "clients/test_spark_jdbc.py": "third",
}
"""Which session serves a file or a folder: three, each about as long."""


class GroupScheduling(LoadScopeScheduling):
    """A worker takes a group, and the next one when it is nearly done."""

    def _split_scope(self, nodeid: str) -> str:
        return group_of(nodeid)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> GroupScheduling:
    """Shares out groups, in the order in which they were collected."""
    return GroupScheduling(config, log)


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Among workers the longest groups begin first."""
    if hasattr(config, "workerinput"):
        items.sort(key=lambda item: begins(item.nodeid))


def group_of(nodeid: str) -> str:
    """The group of a test: its file, or what it shares with other files."""
    path = PurePosixPath(nodeid.partition("::")[0])
    folder = folder_of(nodeid)
    session = SPARK_SESSIONS.get(f"{folder}/{path.name}", SPARK_SESSIONS.get(folder))
    return str(path) if session is None else f"spark {session}"


def folder_of(nodeid: str) -> str:
    """The folder below tests/."""
    parts = PurePosixPath(nodeid.partition("::")[0]).parts
    return parts[parts.index("tests") + 1] if "tests" in parts else ""


def begins(nodeid: str) -> int:
    """Order among workers: the longest groups first."""
    folder = folder_of(nodeid)
    return LONGEST.index(folder) if folder in LONGEST else len(LONGEST)
