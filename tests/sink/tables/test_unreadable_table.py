"""A lake table that lost files, to a lifecycle rule say, stops alone until it comes whole."""

from __future__ import annotations

import json
import threading
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tailrace_sink.daemon.application import serve
from tests.envelopes.source import Source
from tests.envelopes.tables import column
from tests.sink.conftest import Lake

pytestmark = [pytest.mark.spark, pytest.mark.kafka]


@pytest.mark.guarantee(19)
@pytest.mark.slow("a table fails in several attempts, and comes back with a snapshot")
def test_a_table_whose_files_are_missing_stops_alone_and_comes_back_whole(
    source: Source, lake: Lake, spark: SparkSession
):
    columns = (column(1, "id", "int", key=1), column(2, "v", "int"))
    a, b = (source.table(name, *columns) for name in "ab")
    for table in (a, b):
        source.commit(*(lambda t, n=n, of=table: t.insert(of, id=n, v=n) for n in range(3)))
    source.publish()
    lake.catch_up()
    for file in Path(lake.location("b")).glob("*.parquet"):
        file.unlink()
    for table in (a, b):
        source.commit(lambda t, of=table: t.update(of, (1,), v=10))
    source.publish()

    serve(
        spark,
        lake.config(apply_attempts=2, retry_backoff_max_s=0.25),
        threading.Event(),
        once=True,
    )
    stopped = lake.commits()[-1]
    assert set(stopped["tables"]) == {"shop/dbo/a"}
    reason = json.loads(stopped["stopped"])[b.topic]
    assert "failed in 2 attempts" in reason
    assert "Fix: take a new snapshot" in reason
    assert {row["v"] for row in lake.rows("a")} == {0, 10, 2}

    source.publish(snapshotting=[b])
    source.snapshot(b, list(b.rows.values()))
    source.publish()
    lake.catch_up()
    assert lake.commits()[-1]["stopped"] == "{}"
    assert lake.cut() == source.cut()
