"""Messages of outboxes in the Kafka transaction of their events; topics are created as needed."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial

from tailrace_publisher.deliver.kafka_errors import undelivered
from tailrace_publisher.deliver.ledger import OnDelivery
from tailrace_publisher.deliver.partitioning import partition_of
from tailrace_publisher.deliver.producer import TransactionalProducer
from tailrace_publisher.deliver.topics import TopicSpec
from tailrace_publisher.encode.encoded_events import EncodedRows
from tailrace_publisher.encode.outbox import Outbox, outbox_of
from tailrace_publisher.errors import PublisherError, SendingFailed, TableFailed, TopicRefused
from tailrace_publisher.errors.one_table import of_one_table
from tailrace_publisher.options.kafka import Partitioner


class MessageReports:
    """Delivery reports of messages, none of which a progress record counts."""

    def __init__(self) -> None:
        self._failed: dict[tuple[str, str, int], object] = {}

    def of(self, owner: str, topic: str, partition: int) -> OnDelivery:
        """Return the callback of a message.

        Args:
            owner: data topic of the outbox, which identifies its table.
        """
        return partial(self._reported, (owner, topic, partition))

    def _reported(self, where: tuple[str, str, int], error: object, _: object) -> None:
        if error is not None:
            self._failed.setdefault(where, error)

    def failures(self) -> Iterator[PublisherError]:
        """Yield why messages of a partition were not delivered."""
        for (owner, topic, partition), error in self._failed.items():
            found = undelivered(topic, partition, error)
            if isinstance(found, TopicRefused):
                found.topic = owner
            yield found


class OutboxMessages:
    """Sends messages of outboxes.

    Args:
        ensure: creates missing topics; returns the partition count of each.
    """

    def __init__(
        self,
        ensure: Callable[[Sequence[TopicSpec]], Mapping[str, int]],
        partitioner: Partitioner,
    ) -> None:
        self._ensure = ensure
        self._partitioner = partitioner
        self._partitions: dict[str, int] = {}

    def send(
        self, producer: TransactionalProducer, encoded: EncodedRows, reports: MessageReports
    ) -> None:
        """Queue the messages of events, if their table is an outbox.

        Args:
            encoded: events as they were encoded.
            reports: gets the delivery reports.

        Raises:
            SendingFailed: a row or a topic is refused, so that the table stops.
            KafkaUnavailable, OutcomeUnknown, PublisherReplaced: as sending events.
        """
        outbox = outbox_of(encoded)
        if outbox is None or encoded.table is None:
            return
        try:
            with of_one_table(encoded.table, f"sending the messages of {encoded.table}"):
                self._send(producer, encoded, outbox, reports)
        except TableFailed as error:
            raise SendingFailed(error.table, error.cause) from error

    def _send(
        self,
        producer: TransactionalProducer,
        encoded: EncodedRows,
        outbox: Outbox,
        reports: MessageReports,
    ) -> None:
        for message in outbox.messages(encoded):
            count = self._count(outbox, message.topic)
            partition = partition_of(message.key, count, self._partitioner)
            report = reports.of(encoded.topic, message.topic, partition)
            producer.produce_one(
                message.topic, message.key, message.value, partition, message.headers, report
            )

    def _count(self, outbox: Outbox, topic: str) -> int:
        if topic not in self._partitions:
            found = self._ensure([TopicSpec(topic, outbox.partitions, outbox.settings)])
            self._partitions[topic] = found[topic]
        return self._partitions[topic]
