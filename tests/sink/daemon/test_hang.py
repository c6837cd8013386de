"""A fold that hangs without a job of Spark is seen, however busy the stream's jobs are."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession

from tailrace_sink.watch.hang_detector import Part, Steps, look_at_tasks

pytestmark = pytest.mark.spark


def test_a_fold_that_hangs_is_not_excused_by_the_jobs_of_the_stream(
    spark: SparkSession, tmp_path: Path
):
    now = 0.0
    steps = Steps(60, lambda: now)
    tracker = spark.sparkContext.statusTracker()
    over, go = threading.Event(), str(tmp_path / "go")

    def wait(_: int) -> None:
        """In a task of Spark."""
        from pathlib import Path  # Spark's worker knows nothing of this file
        from threading import Event

        pause = Event()
        for _ in range(3000):
            if Path(go).exists():
                return
            pause.wait(0.02)

    def work(frame: DataFrame, _batch: int) -> None:
        frame.sparkSession.sparkContext.parallelize([1], 1).foreach(wait)
        over.set()

    (tmp_path / "rows").mkdir()
    (tmp_path / "rows" / "1.json").write_text('{"id": 1}\n')
    stream = spark.readStream.schema("id INT").json(str(tmp_path / "rows"))
    query = stream.writeStream.foreachBatch(work).start()
    try:
        steps.stream_group = str(query.runId)
        with steps.working(Part.LOG), steps.working(Part.FOLD):
            pause = threading.Event()
            for _ in range(3000):
                if _jobs(spark, str(query.runId)) and tracker.getActiveStageIds():
                    break
                pause.wait(0.02)
            now = 61.0
            look_at_tasks(tracker, steps)
            told = steps.hang()
            assert told is not None
            assert told.startswith("a batch of the tables has made no progress for 61 s")
            steps.stepped(Part.FOLD)
            assert steps.hang() is None  # the log's cut is explained by its job
        Path(go).touch()
        assert over.wait(60)
    finally:
        Path(go).touch()
        query.stop()


def _jobs(spark: SparkSession, group: str) -> list[int]:
    return list(spark.sparkContext.statusTracker().getJobIdsForGroup(group))
