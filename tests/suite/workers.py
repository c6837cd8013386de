"""How the tests are shared out to workers (make test), so that dear fixtures are made once.

Plain pytest runs in one process, what is quick to tell first. With workers every file is a group
that one worker runs in a row, because its fixtures of module scope are made once for it. Files that
need the Spark session go to a few workers only, which have the session from the beginning to the
end. Spark takes all the processor that it gets, and most others wait for other processes: beside
each other both are done sooner than one after the other.

A scheduler of our own, because pytest-xdist 3.8 cannot tell groups by marker under pytest 9.2.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

import pytest
from xdist.scheduler import LoadScopeScheduling
from xdist.workermanage import WorkerController

from tests.suite.groups import SPARK, group_of

SPARK_SESSIONS_MAX = 2
"""Workers with a Spark session: two keep two processors busy, a third costs its start."""


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


def next_group(groups: Collection[str], *, with_spark: bool) -> str | None:
    """The first group that a worker may have: where the Spark session is, those of Spark first."""
    others = next((group for group in groups if not group.startswith(SPARK)), None)
    if not with_spark:
        return others
    return next((group for group in groups if group.startswith(SPARK)), others)
