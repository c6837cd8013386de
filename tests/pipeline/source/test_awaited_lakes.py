"""Cleanup waits for what a lake's sink has committed to its consumer group."""

from __future__ import annotations

import math
from pathlib import Path

import pytest
from confluent_kafka import Consumer, TopicPartition

from tests.pipeline.commands import invoke
from tests.pipeline.conftest import Pipe
from tests.pipeline.daemon.test_kill import scanning
from tests.pipeline.running import Running

pytestmark = pytest.mark.kafka

NOW = "SELECT GETDATE()"


def commit_end(pipe: Pipe, group: str) -> None:
    """What a sink commits once its log has all progress records."""
    consumer = Consumer({"bootstrap.servers": pipe.topics.bootstrap, "group.id": group})
    progress = TopicPartition(pipe.topics.names.progress, 0)
    (_, end) = consumer.get_watermark_offsets(progress, 30)
    consumer.commit(
        offsets=[TopicPartition(progress.topic, progress.partition, end)], asynchronous=False
    )
    consumer.close()


def test_change_rows_stay_until_each_lake_has_them(pipe: Pipe, tmp_path: Path):
    source = pipe.source
    source.execute("CREATE TABLE dbo.orders (id int PRIMARY KEY)")
    source.enable("orders")
    lakes = [f"{pipe.topics.prefix}-{number}" for number in range(2)]
    options = pipe.options(cleanup={"wait_for": "lake", "every_s": 1}, lakes=lakes)
    commits = "SELECT COUNT(DISTINCT __$start_lsn) FROM cdc.dbo_orders_CT"

    def wait_s(publisher: Running, lake: str) -> float | None:
        registry = publisher.metrics.registry
        return registry.get_sample_value("tailrace_lake_wait_seconds", {"group": lake})

    with Running(pipe.config(**options)) as publisher, scanning(source):
        publisher.until(lambda: pipe.is_caught_up(scan=False), "its snapshot is out")
        for number in range(4):
            source.execute(f"INSERT dbo.orders VALUES ({number})")
            # The server keeps all commits of the low watermark's time, so each has its own.
            before = source.query(NOW)
            publisher.until(lambda before=before: source.query(NOW) > before, "the clock moved")
        publisher.until(lambda: len(pipe.topics.changes(source.name, "orders")) == 4, "published")
        publisher.until(lambda: len(publisher.told("lake_unknown")) == 2, "none is known")
        assert f"kafka.consumer_group: {lakes[0]}" in publisher.told("lake_unknown")[0]["reason"]
        assert wait_s(publisher, lakes[0]) == math.inf
        commit_end(pipe, lakes[0])
        publisher.until(lambda: bool(publisher.told("lake_known")), "one is known")
        looked = invoke(pipe, tmp_path, "doctor", **options)
        assert "has everything up to" in looked.output
        assert f"kafka.consumer_group: {lakes[1]}" in looked.output.replace("\n", " ")
        assert source.query(commits) == [(4,)], "the other lake has nothing"
        commit_end(pipe, lakes[1])
        publisher.until(lambda: source.query(commits) <= [(1,)], "both have everything")
        source.execute("INSERT dbo.orders VALUES (9)")
        publisher.until(lambda: (wait_s(publisher, lakes[0]) or 0) > 1, "the lakes stand still")
        assert source.query(f"{commits} WHERE id = 9") == [(1,)]
