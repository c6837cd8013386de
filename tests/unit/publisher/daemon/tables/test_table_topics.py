"""The number of partitions that a table's keys were placed by is compared with its topic's."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from tailrace_publisher.daemon.tables.stopped import StoppedTables
from tailrace_publisher.daemon.tables.table_topics import TableTopics
from tailrace_publisher.deliver.topics import TopicSpec
from tailrace_publisher.errors import TopicPartitionsChanged
from tailrace_publisher.metrics.publisher_metrics import Metrics
from tailrace_publisher.options.publisher_config import PublisherConfig
from tailrace_schemas.topics.topic_names import TableName
from tests.least_options import LEAST

TABLE = TableName("shop", "dbo", "orders")
TOPIC = "p.shop.dbo.orders"


def topics(found: int) -> TableTopics:
    """Those of a broker whose topics have so many partitions."""

    def ensure(specs: Sequence[TopicSpec]) -> dict[str, int]:
        return {spec.name: found for spec in specs}

    options = PublisherConfig.load({**LEAST, "prefix": "p"})
    made = TableTopics(options, ensure, StoppedTables(options.snapshot, Metrics()))
    made.create([TABLE], [])
    return made


@pytest.mark.parametrize("before", [None, 4])
def test_the_number_is_the_same_or_was_not_kept_by_an_earlier_release(before: int | None):
    made = topics(4)

    made.check_partitions(TABLE, before)

    assert made.partitions(TABLE) == 4


@pytest.mark.parametrize(("before", "now"), [(4, 6), (4, 2)])
def test_another_number_names_the_table_both_numbers_and_the_way_out(before: int, now: int):
    with pytest.raises(TopicPartitionsChanged) as raised:
        topics(now).check_partitions(TABLE, before)

    text = str(raised.value)
    assert (raised.value.topic, raised.value.before, raised.value.now) == (TOPIC, before, now)
    assert f"topic {TOPIC} has {now} partitions" in text
    assert f"published by {before}" in text
    assert "tailrace snapshot 'dbo.orders'" in text
    assert f"set kafka.partitions or kafka.topic_rules to {before}" in text


def test_an_operator_who_asks_for_a_snapshot_takes_the_new_number():
    made = topics(6)
    made.stopped.forgive(TABLE)

    made.check_partitions(TABLE, 4)

    assert made.partitions(TABLE) == 6
