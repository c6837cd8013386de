"""The intent: the plan of a batch, stored before the batch starts.

A batch that was interrupted may have reached some tables. If it were planned again after the log
grew or a bound changed, it would be another batch. Then an append would not count as done, and a
table could be later than the cut. So the sink that opens the lake finishes the batch as planned.

Each start of a sink writes a file of its own, named by its epoch, and first reads the file of the
start before. So a sink that was replaced cannot overwrite its successor's intent. Before a batch
starts, its sink checks whether it was replaced (``fold``).
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
        path: of the files without the epoch, which those of earlier releases lack.
        table: a Delta table on the same storage.
    """

    def __init__(self, spark: SparkSession, path: str, table: str) -> None:
        self._spark = spark
        self._path = path
        self._table = table
        self._epoch = 0

    def open(self, epoch: int, after_batch: int) -> BatchPlan | None:
        """Return the batch that was started and has no commit row; this epoch takes it over.

        Args:
            after_batch: batch id of the last commit row. An intent after another row is void: its
                batch was committed, or the commit table was restored to an older version.
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
        """Store the plan of the next batch.

        Args:
            after_batch: batch id of the last commit row.
        """
        text = json.dumps({"after_batch": after_batch, "plan": plan_json(plan)})
        write_text(self._spark, self._table, f"{self._path}-{self._epoch}", text)


def plan_json(plan: BatchPlan) -> dict[str, Any]:
    """Convert a plan to JSON values."""
    return {
        "topics": [range_json(found) for found in plan.topics],
        "following": state_json(plan.following),
        "published_ms": plan.published_ms,
        "moves": plan.moves,
        "patched": plan.patched,
    }


def plan_of(found: dict[str, Any]) -> BatchPlan:
    """Convert the JSON values of :func:`plan_json` to a plan."""
    return BatchPlan(
        topics=tuple(map(range_of, found["topics"])),
        following=state_of(found["following"]),
        published_ms=found["published_ms"],
        moves=found["moves"],
        patched=tuple((*entry,) for entry in found.get("patched", ())),
    )
