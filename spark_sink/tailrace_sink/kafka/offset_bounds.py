"""The offsets that the brokers have, to distinguish lost changes from late ones."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final

from py4j.protocol import Py4JError
from pyspark.sql import SparkSession

from tailrace_sink.errors import (
    ChangesLost,
    KafkaUnavailable,
    SinkError,
    TopicGone,
    TopicRecreated,
    TopicUnknown,
)
from tailrace_sink.kafka.offset_reads import client_properties
from tailrace_sink.options.kafka_options import KafkaConfig
from tailrace_sink.spark.jvm_errors import translated
from tailrace_sink.spark.jvm_names import items_of

TOPIC_GONE_AFTER_S: Final = 30.0
"""Seconds until a topic that the brokers do not know counts as deleted. A broker that has just
started may not know it yet."""

Ranges = Mapping[str, Mapping[int, tuple[int, int]]]
"""(first, next) offset by topic and partition."""


@dataclass(frozen=True, slots=True)
class Bounds:
    """The offsets of a partition.

    Attributes:
        start: of the first record.
        end: after the last record, including open transactions.
        stable_end: after the last record that a ``read_committed`` consumer gets.
    """

    start: int
    end: int
    stable_end: int


@dataclass(frozen=True, slots=True)
class KafkaClasses:
    """Classes of Kafka's client in the JVM."""

    admin: Any
    isolation: Any
    list_options: Any
    offset: Any
    partition: Any
    committed: Any


class TopicCheck:
    """Checks which ranges of offsets are lost."""

    def __init__(self, spark: SparkSession, kafka: KafkaConfig) -> None:
        self._spark = spark
        self._kafka = kafka
        self._since: dict[str, float] = {}

    def gone(self, ranges: Ranges) -> dict[str, SinkError]:
        """Return the error of each topic that no longer has all of its range.

        Raises:
            TopicUnknown: the brokers do not know a topic, or its end, but not for long enough yet.
            KafkaUnavailable: transaction markers are late, or no broker answers.
        """
        if not ranges:
            return {}
        lost: dict[str, SinkError] = {}
        late: SinkError | None = None
        found = self._bounds(ranges)
        for topic, partitions in ranges.items():
            bounds = found.get(topic)
            if bounds is None or any(partition not in bounds for partition in partitions):
                unknown = TopicUnknown(f"topic {topic} does not exist, or lacks partitions")
                if self._is_long_so(topic):
                    lost[topic] = TopicGone(topic)
                else:
                    late = late or unknown
                continue
            error = self._judge(topic, partitions, bounds)
            if error is None:
                self._since.pop(topic, None)
            elif error.retryable:
                late = late or error
            else:
                lost[topic] = error
        if late is not None and not lost:
            raise late
        return lost

    def _judge(
        self, topic: str, partitions: Mapping[int, tuple[int, int]], bounds: Mapping[int, Bounds]
    ) -> SinkError | None:
        for partition, (first, end) in sorted(partitions.items()):
            has = bounds[partition]
            where = f"topic {topic} partition {partition}"
            if first < has.start:
                starts = {partition: of.start for partition, of in bounds.items()}
                reason = f"offsets from {first} on, the first one is {has.start}"
                return ChangesLost(where, reason, starts)
            if end > has.end:
                if self._is_long_so(topic):
                    return TopicRecreated(topic)
                return KafkaUnavailable(f"{where} ends at {has.end}, not at {end}: waiting")
            if end > has.stable_end:
                return KafkaUnavailable(
                    f"{where}: a transaction marker is late: committed records end at"
                    f" {has.stable_end}, not at {end}; waiting for the brokers to write it"
                )
        return None

    def _is_long_so(self, topic: str) -> bool:
        since = self._since.setdefault(topic, time.monotonic())
        if time.monotonic() - since < TOPIC_GONE_AFTER_S:
            return False
        del self._since[topic]
        return True

    def bounds(self, topic: str) -> dict[int, Bounds]:
        """Return the offsets of each partition of a topic; empty if the brokers do not know it.

        Raises:
            SinkError: the brokers do not answer.
        """
        with self._admin(topic) as (admin, jvm):
            if not admin.listTopics().names().get().contains(topic):
                return {}
            asked = [(topic, partition) for partition in self._partitions(admin, jvm, topic)]
            found = self._found(admin, jvm, asked)
            return {partition: of for (_, partition), of in found.items()}

    def topics(self) -> set[str]:
        """Return the names of all topics that the brokers know.

        Raises:
            SinkError: the brokers do not answer.
        """
        with self._admin("the topics") as (admin, _):
            return {str(name) for name in items_of(admin.listTopics().names().get())}

    @contextmanager
    def _admin(self, asked: str) -> Iterator[tuple[Any, Any]]:
        jvm: Any = self._spark._jvm  # noqa: SLF001 - the brokers are asked by Spark's own client
        admin = kafka_classes(jvm).admin.create(client_properties(jvm, self._kafka))
        try:
            yield admin, jvm
        except Py4JError as error:
            raise translated(f"querying Kafka for {asked}", error) from error
        finally:
            admin.close()

    def _bounds(self, ranges: Ranges) -> dict[str, dict[int, Bounds]]:
        with self._admin(", ".join(sorted(ranges))) as (admin, jvm):
            names = admin.listTopics().names().get()
            existing = [topic for topic in ranges if names.contains(topic)]
            known = {topic: self._partitions(admin, jvm, topic) for topic in existing}
            asked = [
                (topic, partition)
                for topic in existing
                for partition in ranges[topic]
                if partition in known[topic]
            ]
            bounds = self._found(admin, jvm, asked)
        found: dict[str, dict[int, Bounds]] = {topic: {} for topic in existing}
        for (topic, partition), of in bounds.items():
            found[topic][partition] = of
        return found

    def _found(
        self, admin: Any, jvm: Any, asked: list[tuple[str, int]]
    ) -> dict[tuple[str, int], Bounds]:
        classes = kafka_classes(jvm)
        spec, level = classes.offset, classes.isolation
        places = {place: classes.partition(*place) for place in asked}
        start, end, stable = (
            self._offsets(admin, jvm, places, of, classes.list_options(isolation))
            for of, isolation in (
                (spec.earliest(), level.READ_UNCOMMITTED),
                (spec.latest(), level.READ_UNCOMMITTED),
                (spec.latest(), level.READ_COMMITTED),
            )
        )
        return {place: Bounds(start[place], end[place], stable[place]) for place in asked}

    @staticmethod
    def _partitions(admin: Any, jvm: Any, topic: str) -> set[int]:
        asked = jvm.java.util.ArrayList()
        asked.add(topic)
        described = admin.describeTopics(asked).topicNameValues().get(topic).get()
        return {int(info.partition()) for info in items_of(described.partitions())}

    @staticmethod
    def _offsets(
        admin: Any, jvm: Any, places: Mapping[tuple[str, int], Any], spec: Any, options: Any
    ) -> dict[tuple[str, int], int]:
        specs = jvm.java.util.HashMap()
        for place in places.values():
            specs.put(place, spec)
        result = admin.listOffsets(specs, options)
        return {
            place: int(result.partitionResult(of).get().offset()) for place, of in places.items()
        }


@lru_cache(maxsize=1)
def kafka_classes(jvm: Any) -> KafkaClasses:
    """Look up each class once: Py4J searches every jar for each part of a name."""
    kafka = jvm.org.apache.kafka
    clients, common = kafka.clients.admin, kafka.common
    return KafkaClasses(
        admin=clients.Admin,
        isolation=common.IsolationLevel,
        list_options=clients.ListOffsetsOptions,
        offset=clients.OffsetSpec,
        partition=common.TopicPartition,
        committed=kafka.clients.consumer.OffsetAndMetadata,
    )
