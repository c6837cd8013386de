"""The intent: the plan of the batch that is about to be applied, written down before it begins.

A batch that broke off may have reached some tables. Planned anew it would be another one as soon as
the progress topic has grown or a bound was changed: an append would not be known as done, and a
table could stand beyond the cut. So whoever opens the lake finishes the batch as it was planned.
"""

from __future__ import annotations

import json
from typing import Any

from pyspark.sql import SparkSession

from tailrace_sink.delta_log import read_text, write_text
from tailrace_sink.progress import BatchPlan
from tailrace_sink.state_json import range_json, range_of, state_json, state_of


class Intent:
    """The intent of one lake.

    Args:
        spark: any session.
        path: where it is.
        commits_path: the commit table beside it.
    """

    def __init__(self, spark: SparkSession, path: str, commits_path: str) -> None:
        self._spark = spark
        self._path = path
        self._commits_path = commits_path

    def write(self, plan: BatchPlan, after_batch: int) -> None:
        """Note what is about to be applied.

        Args:
            plan: the batch.
            after_batch: batch id of the last commit row.
        """
        text = json.dumps({"after_batch": after_batch, "plan": plan_json(plan)})
        write_text(self._spark, self._commits_path, self._path, text)

    def withdraw(self) -> None:
        """The batch is not to be finished: no table has anything of it."""
        write_text(self._spark, self._commits_path, self._path, json.dumps(None))

    def read(self, after_batch: int) -> BatchPlan | None:
        """The batch that was begun and has no commit row, or None.

        Args:
            after_batch: batch id of the last commit row. An intent on top of another row is of no
                use: its batch was committed, or the commit table was put back to an older row.
        """
        text = read_text(self._spark, self._commits_path, self._path)
        found = None if text is None else json.loads(text)
        if found is None or found["after_batch"] != after_batch:
            return None
        return plan_of(found["plan"])


def plan_json(plan: BatchPlan) -> dict[str, Any]:
    """A plan as JSON values."""
    return {
        "topics": [range_json(found) for found in plan.topics],
        "following": state_json(plan.following),
        "published_ms": plan.published_ms,
        "moves": plan.moves,
    }


def plan_of(found: dict[str, Any]) -> BatchPlan:
    """The plan that :func:`plan_json` wrote."""
    return BatchPlan(
        topics=tuple(map(range_of, found["topics"])),
        following=state_of(found["following"]),
        published_ms=found["published_ms"],
        moves=found["moves"],
    )
