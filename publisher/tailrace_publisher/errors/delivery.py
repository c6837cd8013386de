"""What Kafka did not take."""

from __future__ import annotations

from tailrace_publisher.errors.base import PublisherError
from tailrace_schemas.topics.topic_names import TableName


class DeliveryError(PublisherError):
    """Kafka did not take what was sent.

    Attributes:
        code: Kafka's error code, 0 when there is none.
    """

    def __init__(self, message: str, *, code: int = 0) -> None:
        self.code = code
        super().__init__(message)


class KafkaUnavailable(DeliveryError):
    """No broker answers: waiting may help. Nothing was in doubt."""

    retryable = True
    of_one_table = False


class TokenUnavailable(KafkaUnavailable):
    """The function of kafka.oauth_callback raised: waiting may help, as its service may be away."""


class DeliveryTimeout(DeliveryError):
    """A transaction did not finish in time: abandon the producer and start from the checkpoint."""

    retryable = True
    of_one_table = False


class DeliveryRejected(DeliveryError):
    """A broker refused records for good: too large, not authorized, a topic of another shape."""


class TopicRefused(DeliveryRejected):
    """A topic takes nothing from us: no authorization, or it is gone.

    Attributes:
        topic: the data topic, so that its table can be told.
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
    """A data topic is compacted, and the configuration does not say that it may be."""

    def __init__(self, topic: str, policy: str) -> None:
        super().__init__(
            f"topic {topic} has cleanup.policy={policy}: compaction takes events away that the"
            " ledger counts, so neither can be proven that nothing is missing nor can the lake"
            " follow. Keep all events: kafka-configs --alter --entity-type topics --entity-name"
            f" {topic} --add-config cleanup.policy=delete, and take a new snapshot of the table;"
            " or, for subscribers of another kind only, set publisher.kafka.allow_compaction: true",
            topic=topic,
            code=0,
        )


class TopicPartitionsChanged(TopicRefused):
    """A data topic has another number of partitions than the published keys were placed by.

    Attributes:
        before: the number that the keys of published events were placed by.
        now: the number that the topic has.
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
    """A commit may or may not have happened: only the checkpoint, read back, tells."""

    retryable = True
    of_one_table = False
