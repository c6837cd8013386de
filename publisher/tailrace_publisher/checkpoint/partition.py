"""Reads one partition of a topic to its true end, and gives up if nothing more arrives.

A topic may have any length, so reading it may take any time and has no deadline as a whole. Reading
gives up if the brokers have sent no record for a while.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any, Final

from confluent_kafka import OFFSET_BEGINNING, KafkaError, KafkaException, TopicPartition

from tailrace_publisher.checkpoint.watermarks import high_watermarks
from tailrace_publisher.errors import CheckpointUnavailable
from tailrace_publisher.ports import KafkaAccess, KafkaConsumer

_BATCH: Final = 10_000
_LEADER_S: Final = 1.0
_WAIT_S: Final = 0.02  # longer waits only add latency: the brokers answer in milliseconds

# The names of librdkafka's own (not the broker's) codes begin with an underscore.
_END: Final = KafkaError._PARTITION_EOF  # noqa: SLF001
_LOST: Final = frozenset({KafkaError._TRANSPORT, KafkaError._ALL_BROKERS_DOWN})  # noqa: SLF001


def newest_by_key(
    kafka: KafkaAccess,
    topic: str,
    patience_s: float,
    partition: int = 0,
    isolation: str = "read_committed",
) -> dict[bytes, bytes | None]:
    """Read a compacted partition to its end: the newest value of each key, None for a tombstone.

    Nothing is decoded here: of millions of records only the newest of each key count.

    Args:
        topic: the topic, which must exist.
        patience_s: seconds without a further record until it gives up.
        isolation: ``read_uncommitted`` waits for nobody, and also returns what may still be
            aborted.

    Raises:
        CheckpointUnavailable: the end was not reached: no broker, no topic, or another producer's
            open transaction.
    """
    newest: dict[bytes, bytes | None] = {}
    with partition_reader(kafka, topic, isolation, partition) as reader:
        for message in reader.read_all(patience_s):
            newest[message.key() or b""] = message.value()
    return newest


def end_of(kafka: KafkaAccess, topic: str, patience_s: float, partition: int = 0) -> int:
    """Query the end of a topic's partition, including open transactions.

    Args:
        topic: the topic, which must exist.
        patience_s: seconds for which to retry errors that pass without help.

    Raises:
        CheckpointUnavailable: the brokers did not answer in time.
    """
    deadline = kafka.clock.monotonic() + patience_s
    try:
        (end,) = high_watermarks(kafka, [TopicPartition(topic, partition)], deadline).values()
    except (KafkaException, TimeoutError) as error:
        raise CheckpointUnavailable(f"end of topic {topic}: {error}") from error
    return end


class PartitionReader:
    """Reads ranges of one partition of a topic; see :func:`partition_reader`."""

    def __init__(
        self, consumer: KafkaConsumer, kafka: KafkaAccess, topic: str, partition: int = 0
    ) -> None:
        self._consumer = consumer
        self._kafka = kafka
        self._topic = topic
        self._partition = partition

    def begin(self, patience_s: float) -> int:
        """Query the first offset that the partition still holds.

        Raises:
            CheckpointUnavailable: the brokers did not answer in time.
        """
        try:
            where = TopicPartition(self._topic, self._partition)
            found = self._consumer.get_watermark_offsets(where, patience_s)
        except KafkaException as error:
            raise CheckpointUnavailable(f"beginning of topic {self._topic}: {error}") from error
        if found is None:
            raise CheckpointUnavailable(f"beginning of topic {self._topic}: no answer")
        return int(found[0])

    def read_all(self, patience_s: float) -> Iterator[Any]:
        """Read every message that the partition holds now.

        Raises:
            CheckpointUnavailable: as :meth:`read`, or the brokers did not report the end.
        """
        end = end_of(self._kafka, self._topic, patience_s, self._partition)
        return self.read(OFFSET_BEGINNING, end, patience_s)

    def read(self, begin: int, end: int, patience_s: float) -> Iterator[Any]:
        """Read the messages from one offset to before another.

        Args:
            begin: an offset, or librdkafka's OFFSET_BEGINNING.
            end: at most that of :func:`end_of`.
            patience_s: seconds without a further record until it gives up.

        Raises:
            CheckpointUnavailable: the end was not reached: no broker, no topic, or another
                producer's open transaction.
        """
        clock = self._kafka.clock
        try:
            self._find_leader(patience_s)
            self._consumer.assign([TopicPartition(self._topic, self._partition, begin)])
            reached, since = 0, clock.monotonic()
            while reached < end:
                messages = self._consumer.consume(_BATCH, _WAIT_S)
                now = max(map(_reached, messages), default=0)
                for message in messages:
                    if message.error() is None and (message.offset() or 0) < end:
                        yield message
                if now > reached:
                    reached, since = now, clock.monotonic()
                elif clock.monotonic() - since > patience_s:
                    raise CheckpointUnavailable(
                        f"topic {self._topic} ends at offset {end} but could be read only to"
                        f" {reached}, and no record arrived for {patience_s:g} s: another producer"
                        " has a transaction open on it, or the brokers are slow"
                    )
        except KafkaException as error:
            raise CheckpointUnavailable(f"reading topic {self._topic}: {error}") from error

    def _find_leader(self, patience_s: float) -> None:
        """Let the client find the partition's leader before the partition is assigned.

        Without this, reading starts half a second later. librdkafka then looks for the leader
        first, and looks again when its timer of 500 ms expires. The answer itself is not used.
        """
        with suppress(KafkaException):
            where = TopicPartition(self._topic, self._partition)
            self._consumer.get_watermark_offsets(where, min(_LEADER_S, patience_s))


@contextmanager
def partition_reader(
    kafka: KafkaAccess, topic: str, isolation: str = "read_committed", partition: int = 0
) -> Iterator[PartitionReader]:
    """Open a connection for reading one partition of a topic.

    Args:
        isolation: ``read_uncommitted`` waits for nobody, and also returns what may still be
            aborted.
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
        yield PartitionReader(consumer, kafka, topic, partition)
    finally:
        consumer.close()


def _reached(message: Any) -> int:
    """Return the offset up to which the partition was read with a message."""
    error = message.error()
    if error is None:
        return int(message.offset()) + 1
    if error.code() == _END:
        return int(message.offset())  # after the markers at the end, which are no messages
    if error.retriable() or error.code() in _LOST:
        return 0
    raise KafkaException(error)
