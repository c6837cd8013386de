"""How the tests are shared out to workers (make test), so that dear fixtures are made once.

Plain pytest runs in one process, what is quick to tell first. With workers every file is a group
that one worker runs in a row, because its fixtures of module scope are made once for it. Tests of
the Spark session have none: they go one by one to a few workers only, which have the session, from
the beginning to the end. It takes all the processor that it gets, and most others wait for other
processes: beside each other both are done sooner than one after the other.

A scheduler of our own, because pytest-xdist 3.8 cannot tell groups by marker under pytest 9.2.
"""

from __future__ import annotations

from collections.abc import Collection
from pathlib import PurePosixPath
from typing import Any

import pytest
from xdist.scheduler import LoadScopeScheduling
from xdist.workermanage import WorkerController

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
SPARK_SESSIONS_MAX = 2
"""Workers with a Spark session: two keep two processors busy, a third costs its start."""
SPARK = "spark "
"""Begins the groups of such workers."""
_OF_SPARK = {"end_to_end", "sink"}


class GroupScheduling(LoadScopeScheduling):
    """A worker takes a group, and the next one when it is nearly done."""

    def __init__(self, config: pytest.Config, log: Any = None) -> None:
        super().__init__(config, log)
        self._with_spark: list[WorkerController] = []

    def _split_scope(self, nodeid: str) -> str:
        return group_of(nodeid)

    def _assign_work_unit(self, node: WorkerController) -> None:
        """Assign the first group that this worker may have, if there is one."""
        scope = next_group(self.workqueue, with_spark=self._has_spark(node))
        if scope is not None:
            self.workqueue.move_to_end(scope, last=False)
            super()._assign_work_unit(node)

    def _reschedule(self, node: WorkerController) -> None:
        """As above; a worker that no group is left for ends."""
        if next_group(self.workqueue, with_spark=self._has_spark(node)) is not None:
            super()._reschedule(node)
        elif not node.shutting_down:
            node.shutdown()

    def _has_spark(self, node: WorkerController) -> bool:
        """Whether a worker has the Spark session: the first ones that ask, and who follows them."""
        self._with_spark = [other for other in self._with_spark if other in self.assigned_work]
        if node not in self._with_spark and len(self._with_spark) < SPARK_SESSIONS_MAX:
            self._with_spark.append(node)
        return node in self._with_spark


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> GroupScheduling:
    """Shares out groups, in the order in which they were collected."""
    return GroupScheduling(config, log)


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Among workers the longest groups begin first, and in a folder what is marked as slow."""
    if hasattr(config, "workerinput"):
        items.sort(key=lambda item: (begins(item.nodeid), item.get_closest_marker("slow") is None))


def group_of(nodeid: str) -> str:
    """The group of a test: its file, or the test alone where it only needs the Spark session."""
    if folder_of(nodeid) in _OF_SPARK:
        return f"{SPARK}{nodeid}"
    return nodeid.partition("::")[0]


def next_group(groups: Collection[str], *, with_spark: bool) -> str | None:
    """The first group that a worker may have: where the Spark session is, those of Spark first."""
    others = next((group for group in groups if not group.startswith(SPARK)), None)
    if not with_spark:
        return others
    return next((group for group in groups if group.startswith(SPARK)), others)


def folder_of(nodeid: str) -> str:
    """The folder below tests/."""
    parts = PurePosixPath(nodeid.partition("::")[0]).parts
    return parts[parts.index("tests") + 1] if "tests" in parts else ""


def begins(nodeid: str) -> int:
    """Order among workers: the longest groups first."""
    folder = folder_of(nodeid)
    return LONGEST.index(folder) if folder in LONGEST else len(LONGEST)
