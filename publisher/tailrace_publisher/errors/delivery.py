"""Errors of Kafka."""

from __future__ import annotations

from tailrace_publisher.errors.base import PublisherError
from tailrace_schemas.topics.topic_names import TableName


class DeliveryError(PublisherError):
    """Kafka did not accept what was sent.

    Attributes:
        code: Kafka's error code, 0 if there is none.
    """

    def __init__(self, message: str, *, code: int = 0) -> None:
        self.code = code
        super().__init__(message)


class KafkaUnavailable(DeliveryError):
    """No broker answers: waiting may help. No commit is in doubt."""

    retryable = True
    of_one_table = False


class TokenUnavailable(KafkaUnavailable):
    """The function of kafka.oauth_callback raised: waiting may help, as its service may be away."""


class DeliveryTimeout(DeliveryError):
    """A transaction did not finish in time: the publisher starts again from the checkpoint."""

    retryable = True
    of_one_table = False


class DeliveryRejected(DeliveryError):
    """A broker refused records for good: too large, not authorized, or a topic of another shape."""


class TopicRefused(DeliveryRejected):
    """A topic accepts nothing from the publisher: no authorization, or the topic is gone.

    Attributes:
        topic: the data topic, which identifies the table.
    """

    def __init__(self, message: str, *, topic: str, code: int) -> None:
        self.topic = topic
        super().__init__(message, code=code)


class ForeignRecords(TopicRefused):
    """Another producer wrote into a data topic between the records of a Kafka transaction.

    The transaction is aborted and sent again. A topic in which this persists stops its table.
    """

    retryable = True
    of_one_table = False


class TopicCompacted(TopicRefused):
    """A data topic is compacted, and the configuration does not allow that."""

    def __init__(self, topic: str, policy: str) -> None:
        super().__init__(
            f"topic {topic} has cleanup.policy={policy}: compaction deletes events that the ledger"
            " counts, so nothing proves that none is missing, and the lake cannot follow. Fix:"
            " retain all events with kafka-configs --alter --entity-type topics --entity-name"
            f" {topic} --add-config cleanup.policy=delete, and take a new snapshot of the table;"
            " if no lake reads the topic, set publisher.kafka.allow_compaction: true instead",
            topic=topic,
            code=0,
        )


class TopicPartitionsChanged(TopicRefused):
    """A data topic has another number of partitions than when its keys were published.

    Attributes:
        before: the number by which published events were assigned to partitions.
        now: the topic's present number.
    """

    def __init__(self, table: TableName, topic: str, before: int, now: int) -> None:
        self.before = before
        self.now = now
        super().__init__(
            f"table {table}: topic {topic} has {now} partitions, and events of the table were"
            f" published by {before}. With another number most keys go to another partition, and"
            " subscribers lose the order of their events. Fix: take a new snapshot (tailrace"
            f" snapshot '{table.schema}.{table.table}'): it publishes every key by the new number,"
            " and subscribers that need order per key read from its beginning. To return to"
            f" {before} partitions, set kafka.partitions or kafka.topic_rules to {before} and"
            " delete the topic first: the snapshot creates it again",
            topic=topic,
            code=0,
        )


class RecordTooLarge(TopicRefused):
    """An event is larger than the producer or its topic allows."""

    of_events = True


class OutcomeUnknown(DeliveryError):
    """A commit may or may not have happened: only the checkpoint, read back, shows it."""

    retryable = True
    of_one_table = False
