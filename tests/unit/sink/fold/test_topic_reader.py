"""What a batch reads from Kafka: the brokers are queried once."""

from __future__ import annotations

from typing import Any, cast

from tailrace_sink.errors import KafkaUnavailable, SinkError, TopicGone
from tailrace_sink.fold.topic_reader import TopicReader
from tailrace_sink.kafka.offset_bounds import Ranges
from tailrace_sink.options.config import SinkConfig
from tailrace_sink.plan.sink_state import BatchPlan, SinkState
from tailrace_sink.plan.topic_ranges import TopicRange
from tests.least_options import LEAST_OF_SINK

CONFIG = SinkConfig.load({**LEAST_OF_SINK, "bulk_changes": 1000})
ALL = {0: (10, 2000)}
LOGGED = TopicRange("logged", ALL, 1990, frozenset())
IN_KAFKA = TopicRange("bulk", ALL, 1990, frozenset(), in_kafka=ALL)
MIXED = TopicRange("mixed", ALL, 1990, frozenset(), in_kafka={0: (500, 2000)})
FEW = TopicRange("few", {0: (10, 20)}, 10, frozenset())


class Brokers:
    """The brokers' answers, and what they were asked for."""

    def __init__(self, *lost: str, answer: bool = True) -> None:
        self.asked: list[Ranges] = []
        self._lost = lost
        self._answer = answer

    def gone(self, ranges: Ranges) -> dict[str, SinkError]:
        if not ranges:
            return {}
        self.asked.append(ranges)
        if not self._answer:
            raise KafkaUnavailable("no broker answers")
        return {topic: TopicGone(topic) for topic in ranges if topic in self._lost}


def read_by(brokers: Brokers, *topics: TopicRange) -> tuple[dict[str, SinkError], set[str]]:
    """The topics that are lost, and those that are read from Kafka as a whole."""
    reader = TopicReader(cast(Any, None), CONFIG, cast(Any, None), cast(Any, brokers))
    plan = BatchPlan(topics, SinkState(), 0, moves=True)
    lost = reader.lost(plan)
    found = reader.large_from_kafka(plan)
    assert [of.topic for of in found.topics] == [of.topic for of in topics]
    return lost, {of.topic for of in found.topics if of.from_kafka == of.partitions}


def test_a_large_batch_queries_the_brokers_once():
    for topics in ((LOGGED, FEW), (IN_KAFKA, FEW)):
        brokers = Brokers()
        assert read_by(brokers, *topics) == ({}, {topics[0].topic})
        assert brokers.asked == [{topics[0].topic: ALL}]


def test_what_only_kafka_had_is_lost_and_the_rest_is_read_from_the_log():
    lost, found = read_by(Brokers("bulk", "logged"), IN_KAFKA, LOGGED, MIXED)
    assert lost.keys() == {"bulk"}
    assert found == {"bulk", "mixed"}
    brokers = Brokers(answer=False)
    assert read_by(brokers, LOGGED) == ({}, set())
    assert brokers.asked == [{"logged": ALL}]
