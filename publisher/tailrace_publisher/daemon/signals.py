"""Signals of operators, taken beside the stream.

What a signal changes, and the offset behind it, go into the publisher's state, hence into the same
Kafka transaction: a signal is taken once, whatever dies in between.
"""

from __future__ import annotations

from typing import Final

import structlog
from confluent_kafka import KafkaError, KafkaException, TopicPartition

from tailrace_publisher.daemon.publisher_state import PublisherState
from tailrace_publisher.daemon.tables import PublishedTables
from tailrace_publisher.deliver.delivery import KafkaDelivery
from tailrace_publisher.deliver.topics import signals_spec
from tailrace_publisher.errors import DeliveryRejected
from tailrace_publisher.ports import KafkaConsumer
from tailrace_publisher.runtime import DatabaseTopics
from tailrace_schemas.signals import AcceptedLoss, read_signal

_log = structlog.get_logger(__name__)

_AT_ONCE: Final = 100
_REFUSED: Final = frozenset(
    {KafkaError.TOPIC_AUTHORIZATION_FAILED, KafkaError.GROUP_AUTHORIZATION_FAILED}
)


class Signals:
    """Reads the signals topic and does what it says.

    Args:
        topics: with the signals topic.
        delivery: creates it.
        state: keeps the offset behind the last signal.
        tables: what is published.
    """

    def __init__(
        self,
        topics: DatabaseTopics,
        delivery: KafkaDelivery,
        state: PublisherState,
        tables: PublishedTables,
    ) -> None:
        self._topic = topic = topics.names.signals
        self._state = state
        self._tables = tables
        self._consumer: KafkaConsumer | None = None
        try:
            delivery.ensure_topics([signals_spec(topic)])
        except DeliveryRejected as error:
            self._do_without(str(error))
            return
        self._consumer = topics.kafka.clients.consumer(
            {
                **topics.kafka.options,
                "group.id": f"{topic}-reader",  # required by the client; never joined
                "enable.auto.commit": False,
                "isolation.level": "read_committed",
                "auto.offset.reset": "earliest",
            }
        )
        self._consumer.assign([TopicPartition(topic, 0, state.signals_offset or 0)])

    def close(self) -> None:
        """End the connection."""
        if self._consumer is not None:
            self._consumer.close()
            self._consumer = None

    def take(self) -> None:
        """Do what arrived since the last call; never waits.

        To be called between source transactions. Wrong signals are told and passed over.

        Raises:
            PublisherError: the catalog or the topics of a table could not be asked.
        """
        if self._consumer is None:
            return
        try:
            messages = self._consumer.consume(_AT_ONCE, 0)
        except KafkaException as error:
            self._do_without(str(error))
            return
        for message in messages:
            failure = message.error()
            if failure is None:
                self._take(message.offset() or 0, message.value())
            elif failure.code() in _REFUSED:
                self._do_without(failure.str())
                return

    def _take(self, offset: int, value: bytes | None) -> None:
        self._state.signals_offset = offset + 1
        try:
            signal = read_signal(value)
        except ValueError as error:
            _log.error("signal_refused", topic=self._topic, offset=offset, reason=str(error))
            return
        if isinstance(signal, AcceptedLoss):
            return  # for a start without a checkpoint, which has looked already
        for name in signal.tables:
            found = self._tables.find(name)
            if found is None and self._tables.is_elsewhere(name):
                continue
            if found is None:
                _log.error(
                    "signal_refused",
                    topic=self._topic,
                    offset=offset,
                    table=name,
                    reason="no such table is published",
                    fix="name it as schema.table; it must be captured and selected by tables",
                )
            else:
                self._tables.begin_again(found)

    def _do_without(self, reason: str) -> None:
        self.close()
        _log.warning(
            "signals_not_available",
            topic=self._topic,
            reason=reason,
            effect="new snapshots cannot be asked for",
            fix="grant Create and Read on the topic",
        )
