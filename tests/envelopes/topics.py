"""Topics on the broker: created, deleted, cut off, and read to their end."""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping

from confluent_kafka import Consumer, ConsumerGroupTopicPartitions, KafkaError, TopicPartition
from confluent_kafka.admin import AdminClient, OffsetSpec
from confluent_kafka.cimpl import NewTopic

from tailrace_schemas.records.signals import AcceptedLoss, SnapshotSignal, read_signal
from tests.envelopes.messages import PARTITIONS


class Topics:
    """The topics of a broker."""

    def __init__(self, bootstrap: str) -> None:
        self._bootstrap = bootstrap
        self._admin = AdminClient({"bootstrap.servers": bootstrap})

    def create(self, topic: str, partitions: int = 1) -> None:
        """Create a topic."""
        for future in self._admin.create_topics([NewTopic(topic, partitions, 1)]).values():
            future.result(30)

    def delete(self, topic: str) -> None:
        """Delete a topic, and wait until the broker does not show it."""
        for future in self._admin.delete_topics([topic]).values():
            future.result(30)
        self._wait_for(topic, exists=False)

    def create_again(self, topic: str) -> None:
        """Create a data topic that was deleted, and wait until the broker shows it."""
        self.create(topic, PARTITIONS)
        self._wait_for(topic, exists=True)

    def delete_records(self, topic: str, before: Mapping[int, int]) -> None:
        """Delete the oldest records, as retention does.

        Args:
            before: the first offset that stays, by partition.
        """
        doomed = [TopicPartition(topic, number, offset) for number, offset in before.items()]
        for future in self._admin.delete_records(doomed).values():
            future.result(30)

    def end_offset(self, topic: str) -> int:
        """The offset after the last record of a topic's first partition."""
        place = TopicPartition(topic, 0)
        (found,) = self._admin.list_offsets({place: OffsetSpec.latest()}).values()
        return int(found.result(30).offset)

    def group_offset(self, group: str, topic: str) -> int:
        """The offset that a group has committed of a topic's first partition; negative: none."""
        asked = ConsumerGroupTopicPartitions(group, [TopicPartition(topic, 0)])
        (found,) = self._admin.list_consumer_group_offsets([asked]).values()
        return int(found.result(30).topic_partitions[0].offset)

    def signals(self, topic: str) -> list[SnapshotSignal | AcceptedLoss]:
        """What was asked of the publisher."""
        consumer = Consumer(
            {
                "bootstrap.servers": self._bootstrap,
                "group.id": topic,
                "auto.offset.reset": "earliest",
                "enable.partition.eof": True,
            }
        )
        found: list[SnapshotSignal | AcceptedLoss] = []
        consumer.assign([TopicPartition(topic, 0, 0)])
        try:
            while True:
                message = consumer.poll(30)
                assert message is not None, "the broker does not answer"
                error = message.error()
                if error is not None:
                    assert error.code() == KafkaError._PARTITION_EOF, error
                    return found
                found.append(read_signal(message.value()))
        finally:
            consumer.close()

    def _wait_for(self, topic: str, *, exists: bool) -> None:
        deadline, pause = time.monotonic() + 60, threading.Event()
        while (topic in self._admin.list_topics(timeout=10).topics) != exists:
            assert time.monotonic() < deadline, topic
            pause.wait(0.05)
