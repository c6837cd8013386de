"""Reading one partition of a topic from an offset to its true end."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any, Final

from confluent_kafka import KafkaError, KafkaException, TopicPartition

from tailrace_publisher.checkpoint.watermarks import high_watermarks
from tailrace_publisher.errors import CheckpointUnavailable
from tailrace_publisher.ports import Clock, KafkaAccess, KafkaConsumer

_BATCH: Final = 1000
_LEADER_S: Final = 1.0
_WAIT_S: Final = 0.02  # longer waits only add latency: the brokers answer in milliseconds
_SHORTEST_S: Final = 1.0
# The names of librdkafka's own (not the broker's) codes begin with an underscore.
_END: Final = KafkaError._PARTITION_EOF  # noqa: SLF001
_LOST: Final = frozenset({KafkaError._TRANSPORT, KafkaError._ALL_BROKERS_DOWN})  # noqa: SLF001


def end_of(kafka: KafkaAccess, topic: str, deadline: float, partition: int = 0) -> int:
    """The end of a topic's partition, open transactions included.

    Args:
        kafka: the brokers.
        topic: its name.
        deadline: monotonic time until when to try again what passes by itself.
        partition: which.

    Raises:
        CheckpointUnavailable: the brokers did not tell in time.
    """
    try:
        (end,) = high_watermarks(kafka, [TopicPartition(topic, partition)], deadline).values()
    except (KafkaException, TimeoutError) as error:
        raise CheckpointUnavailable(f"end of topic {topic}: {error}") from error
    return end


class PartitionReader:
    """Reads ranges of one partition of a topic; made by :func:`partition_reader`."""

    def __init__(
        self, consumer: KafkaConsumer, topic: str, clock: Clock, partition: int = 0
    ) -> None:
        self._consumer = consumer
        self._clock = clock
        self._topic = topic
        self._partition = partition

    def begin(self, deadline: float) -> int:
        """The first offset that the partition still holds.

        Raises:
            CheckpointUnavailable: the brokers did not tell in time.
        """
        left_s = max(deadline - self._clock.monotonic(), _SHORTEST_S)
        try:
            where = TopicPartition(self._topic, self._partition)
            found = self._consumer.get_watermark_offsets(where, left_s)
        except KafkaException as error:
            raise CheckpointUnavailable(f"beginning of topic {self._topic}: {error}") from error
        if found is None:
            raise CheckpointUnavailable(f"beginning of topic {self._topic}: no answer")
        return int(found[0])

    def read(self, begin: int, end: int, deadline: float) -> Iterator[Any]:
        """The messages from one offset to before another.

        Args:
            begin: first offset, or librdkafka's OFFSET_BEGINNING.
            end: offset to read up to; as :func:`end_of`, or less.
            deadline: monotonic time until when to wait for the end.

        Raises:
            CheckpointUnavailable: the end was not reached in time: no broker, no topic, or another
                producer's open transaction.
        """
        try:
            self._find_leader(deadline)
            self._consumer.assign([TopicPartition(self._topic, self._partition, begin)])
            reached = 0
            while reached < end:
                for message in self._consumer.consume(_BATCH, _WAIT_S):
                    reached = max(reached, _reached(message))
                    if message.error() is None and (message.offset() or 0) < end:
                        yield message
                if reached < end and self._clock.monotonic() > deadline:
                    raise CheckpointUnavailable(
                        f"topic {self._topic} ends at offset {end} but could be read only to"
                        f" {reached} in time: another producer has a transaction open on it, or the"
                        " brokers are slow"
                    )
        except KafkaException as error:
            raise CheckpointUnavailable(f"reading topic {self._topic}: {error}") from error

    def _find_leader(self, deadline: float) -> None:
        """Have the client know who has the partition, before it is assigned.

        Where it does not, it begins to read half a second later: librdkafka looks for it then, and
        looks again when its timer of 500 ms is over. What it says is of no matter here.
        """
        left_s = min(_LEADER_S, deadline - self._clock.monotonic())
        if left_s > 0:
            with suppress(KafkaException):
                where = TopicPartition(self._topic, self._partition)
                self._consumer.get_watermark_offsets(where, left_s)


@contextmanager
def partition_reader(
    kafka: KafkaAccess, topic: str, isolation: str = "read_committed", partition: int = 0
) -> Iterator[PartitionReader]:
    """A connection for reading one partition of a topic.

    Args:
        kafka: the brokers.
        topic: its name.
        isolation: ``read_uncommitted`` waits for nobody, and sees what may yet be aborted.
        partition: which.
    """
    consumer = kafka.clients.consumer(
        {
            **kafka.options,
            "group.id": f"{topic}-reader",  # required by the client; never joined
            "enable.auto.commit": False,
            "isolation.level": isolation,
            "enable.partition.eof": True,
            "fetch.wait.max.ms": 20,
            "auto.offset.reset": "error",
        }
    )
    try:
        yield PartitionReader(consumer, topic, kafka.clock, partition)
    finally:
        consumer.close()


def _reached(message: Any) -> int:
    """The offset up to which the partition was read with a message."""
    error = message.error()
    if error is None:
        return int(message.offset()) + 1
    if error.code() == _END:
        return int(message.offset())  # behind the markers at the end, which are no messages
    if error.retriable() or error.code() in _LOST:
        return 0
    raise KafkaException(error)
