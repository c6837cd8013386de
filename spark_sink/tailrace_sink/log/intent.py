"""The intent: the plan of the batch that is about to be folded, written down before it begins.

A batch that broke off may have reached some tables. Planned anew it would be another one as soon as
the log has grown or a bound was changed: an append would not be known as done, and a table could
stand beyond the cut. So whoever opens the lake finishes the batch as it was planned.

Each start of a sink writes a file of its own, named by its epoch, and begins with what the one
before has left: a sink that was replaced and does not know it yet cannot write over its
successor's intent. Before a batch begins its sink looks whether it was replaced (``fold``).
"""

from __future__ import annotations

import json
from typing import Any

from pyspark.sql import SparkSession

from tailrace_sink.delta.file_log import delete_file, read_text, write_text
from tailrace_sink.plan.sink_state import BatchPlan
from tailrace_sink.plan.state_json import range_json, range_of, state_json, state_of


class Intent:
    """The intent of one lake.

    Args:
        spark: any session.
        path: of the files, without the epoch; an earlier release's has none.
        table: a Delta table on the same storage.
    """

    def __init__(self, spark: SparkSession, path: str, table: str) -> None:
        self._spark = spark
        self._path = path
        self._table = table
        self._epoch = 0

    def open(self, epoch: int, after_batch: int) -> BatchPlan | None:
        """The batch that was begun and has no commit row, or None; from now on it is this epoch's.

        Args:
            epoch: of this sink.
            after_batch: batch id of the last commit row. An intent on top of another row is of no
                use: its batch was committed, or the commit table was put back to an older row.
        """
        self._epoch = epoch
        paths = [f"{self._path}-{of}" for of in range(epoch, 0, -1)] + [self._path]
        for path in paths:
            text = read_text(self._spark, self._table, path)
            if text is not None:
                found = json.loads(text)
                write_text(self._spark, self._table, paths[0], text)
                if path != paths[0]:
                    delete_file(self._spark, self._table, path)
                break
        else:
            found = None
            write_text(self._spark, self._table, paths[0], json.dumps(None))
        if found is None or found["after_batch"] != after_batch:
            return None
        return plan_of(found["plan"])

    def write(self, plan: BatchPlan, after_batch: int) -> None:
        """Note what is about to be folded.

        Args:
            plan: the batch.
            after_batch: batch id of the last commit row.
        """
        text = json.dumps({"after_batch": after_batch, "plan": plan_json(plan)})
        write_text(self._spark, self._table, f"{self._path}-{self._epoch}", text)


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
