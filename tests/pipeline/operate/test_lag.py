"""tailrace lag beside a source, brokers and a lake that is not there yet."""

from __future__ import annotations

import json
import time
from pathlib import Path

import pytest

from tests.pipeline.commands import invoke
from tests.pipeline.conftest import Pipe
from tests.pipeline.running import Running

pytestmark = pytest.mark.kafka


def test_each_joint_tells_how_far_it_is(pipe: Pipe, tmp_path: Path):
    pipe.source.execute(
        "CREATE TABLE dbo.orders (id int PRIMARY KEY, note nvarchar(20))",
        "CREATE TABLE dbo.[my items] (id int PRIMARY KEY)",
    )
    pipe.source.enable("orders")
    pipe.source.enable("my items")
    with Running(pipe.config()) as publisher:
        publisher.until(pipe.is_caught_up, "the snapshots are out")
    through = str(pipe.topics.through())
    pipe.source.execute("INSERT dbo.orders VALUES (1, N'a')")
    pipe.source.scan()

    answer = invoke(pipe, tmp_path, "lag", "--json")
    assert answer.exit_code == 0, answer.output
    found = json.loads(answer.output)
    assert (found["problems"], found["capture_s"]) == ({}, 0)
    assert found["retention_s"] == 4320 * 60
    assert list(found["stages"]) == ["captured", "topics"]
    assert found["stages"]["topics"]["lsn"] == through
    assert found["stages"]["captured"]["lsn"] == str(pipe.source.max_lsn()) > through
    items, orders = found["tables"]
    assert (items["table"], items["newest_lsn"], items["topic_s"]) == ("dbo.my items", None, 0.0)
    assert orders["newest_lsn"] > through
    behind = (orders["newest_ms"] - found["stages"]["topics"]["commit_ms"]) / 1000
    assert orders["topic_s"] == pytest.approx(max(0.0, behind))

    began = time.monotonic()
    kafka = {**pipe.options()["kafka"], "start_timeout_s": 60}
    told = invoke(pipe, tmp_path, "lag", "--worst", kafka=kafka).output
    assert time.monotonic() - began < 30, "it waits for no more records than there are"
    assert "The capture job is 0.0 s behind the log." in told

    away = {"kafka": {"bootstrap": "127.0.0.1:1", "start_timeout_s": 1}}
    told = invoke(pipe, tmp_path, "lag", **away).output
    assert "topics did not answer: Kafka at " in told
    assert "dbo.my items" in told
