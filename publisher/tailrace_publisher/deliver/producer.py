"""The transactional producer: begin, queue, flush, commit, and what a failure of each means.

What is known after a failure:

- Before the commit was requested, the transaction never becomes visible. The next producer with
  this transactional id aborts it.
- A commit that timed out is neither done nor undone. The protocol refuses an abort, so only a
  repeated commit may resolve it; it is repeated until ``timeout_s``.
- Any other doubt ends in ``OutcomeUnknown``. A new producer fences this one, and the checkpoint,
  read back, shows what was committed.

A producer that failed is dropped at once, because nothing it reports after a fatal error can be
trusted. For example, produce and begin_transaction are local and succeed on a fenced producer.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final

import structlog
from confluent_kafka import KafkaError, KafkaException

from tailrace_publisher.deliver.kafka_errors import kafka_error, translate
from tailrace_publisher.deliver.ledger import OnDelivery
from tailrace_publisher.deliver.producer_failure import cause_of, ended_by, fatal_cause
from tailrace_publisher.deliver.producer_options import producer_options
from tailrace_publisher.encode.encoded_events import Headers
from tailrace_publisher.errors import (
    DeliveryTimeout,
    KafkaUnavailable,
    OutcomeUnknown,
    PublisherError,
)
from tailrace_publisher.ports import KafkaAccess, KafkaProducer

_STEP_S: Final = 1.0  # longest call into librdkafka, so that signals are served
_FULL_QUEUE_POLL_S: Final = 0.01

log = structlog.get_logger(__name__)


class TransactionalProducer:
    """One Kafka producer with a transactional id.

    Args:
        kafka: the brokers, with the queue's size among the options.
        transaction_timeout_ms: after it the brokers abort.
        timeout_s: of any one call.
    """

    def __init__(
        self,
        kafka: KafkaAccess,
        transactional_id: str,
        transaction_timeout_ms: int,
        timeout_s: float,
    ) -> None:
        self._transactional_id = transactional_id
        self._transaction_timeout_s = transaction_timeout_ms / 1000
        self._timeout_s = timeout_s
        self._clock = kafka.clock
        self._opened_at: float | None = None
        self._producer: KafkaProducer | None = kafka.clients.producer(
            producer_options(transactional_id, transaction_timeout_ms, kafka.options)
        )

    @property
    def age_s(self) -> float | None:
        """Seconds since the open transaction began; None without one."""
        return None if self._opened_at is None else self._clock.monotonic() - self._opened_at

    def init_transactions(self, timeout_s: float) -> None:
        """Fence the previous producer and abort what it left open.

        Raises:
            KafkaUnavailable: no broker answered in time.
            DeliveryRejected: the brokers do not allow it.
        """
        try:
            self._alive().init_transactions(timeout_s)
        except (KafkaException, SystemError) as error:
            raise self._failed(f"init_transactions of {self._transactional_id}", error) from error

    def begin(self) -> None:
        """Begin a transaction unless one is open; local, so it does not notice being fenced."""
        producer = self._alive()
        if self._opened_at is None:
            try:
                producer.begin_transaction()
            except (KafkaException, SystemError) as error:
                raise self._failed("beginning a transaction", error) from error
            self._opened_at = self._clock.monotonic()

    def produce(
        self,
        topic: str,
        messages: Iterable[tuple[bytes | None, bytes | None, int]],
        reports: Mapping[int, OnDelivery],
        headers: Headers | None = None,
    ) -> None:
        """Queue messages in order.

        Args:
            topic: where the messages go.
            messages: (key, value, partition) each.
            reports: delivery callbacks by index of the message. They must not raise.
            headers: for the messages that have a value.

        Raises:
            KafkaUnavailable: the queue stays full because the brokers accept nothing.
            RecordTooLarge: a message is larger than message.max.bytes of the producer.
            OutcomeUnknown, PublisherReplaced: the producer is unusable.
        """
        producer = self._alive()
        produce = producer.produce if headers is None else _with(headers, producer.produce)
        try:
            for index, (key, value, partition) in enumerate(messages):
                try:
                    if index in reports:
                        produce(topic, value, key, partition, reports[index])
                    else:
                        produce(topic, value, key, partition)
                except BufferError:
                    message = (value, key, partition, reports.get(index))
                    self._produce_when_room(producer, produce, topic, *message)
            producer.poll(0)
        except (KafkaException, SystemError) as error:
            raise self._failed(f"sending to topic {topic}", error, topic) from error

    def produce_one(
        self,
        topic: str,
        key: bytes | None,
        value: bytes | None,
        partition: int,
        headers: Sequence[tuple[str, bytes]],
        report: OnDelivery,
    ) -> None:
        """Queue a message with headers; see :meth:`produce`, also for what it raises."""
        producer = self._alive()
        message = (value, key, partition, report, None, 0, list(headers))
        try:
            try:
                producer.produce(topic, *message)
            except BufferError:
                self._produce_when_room(producer, producer.produce, topic, *message)
            producer.poll(0)
        except (KafkaException, SystemError) as error:
            raise self._failed(f"sending to topic {topic}", error, topic) from error

    def flush(
        self,
        failure: Callable[[], PublisherError | None] = lambda: None,
        waiting: Callable[[], Sequence[str]] = lambda: (),
    ) -> None:
        """Wait until every message is delivered and reported.

        librdkafka holds back the messages after a refused one, and reports no error until the
        commit is requested. So delivery reports are checked while waiting.

        Args:
            failure: returns why delivery cannot succeed; None if nothing is known. Called at least
                once a second.
            waiting: returns the topics that have not confirmed everything, to be logged.

        Raises:
            DeliveryTimeout: the time is over; nothing is committed.
            PublisherError: the error that ``failure`` returned; nothing is committed.
            OutcomeUnknown, PublisherReplaced: the producer is unusable.
        """
        producer = self._alive()
        deadline = self._clock.monotonic() + self._timeout_s
        remaining = 1
        try:
            while remaining:
                remaining = producer.flush(_STEP_S)
                if (refused := failure()) is not None:
                    # A fatal error fails every waiting record, with a less precise reason.
                    if (cause := fatal_cause(producer, 0, self._clock)) is not None:
                        raise self._failed_by("delivering records", cause)
                    self.abandon()
                    raise refused
                if remaining:
                    topics = ", ".join(waiting()) or None
                    log.warning("waiting_for_kafka", records_not_delivered=remaining, topics=topics)
                if remaining and self._clock.monotonic() > deadline:
                    self.abandon()
                    raise DeliveryTimeout(
                        f"{remaining} records were not delivered within {self._timeout_s:g} s"
                    )
        except (KafkaException, SystemError) as error:
            raise self._failed("delivering records", error) from error

    def commit(self) -> None:
        """Commit the transaction; resume a commit that timed out until the deadline.

        Raises:
            OutcomeUnknown: it may or may not be committed.
            PublisherReplaced, DeliveryRejected, DeliveryTimeout: it is not.
        """
        producer = self._alive()
        deadline = self._clock.monotonic() + self._timeout_s
        while True:
            try:
                producer.commit_transaction(_STEP_S)
            except (KafkaException, SystemError) as error:
                inner = kafka_error(error)
                if inner is None or not inner.retriable():
                    raise self._failed("committing a transaction", error) from error
                if self._clock.monotonic() > deadline:
                    self.abandon()
                    raise OutcomeUnknown(
                        f"committing a transaction: no answer within {self._timeout_s:g} s; it may"
                        " or may not be committed",
                        code=inner.code(),
                    ) from error
                log.warning("waiting_for_commit", reason=inner.str())
            else:
                self._opened_at = None
                return

    def abort(self) -> None:
        """Abort the open transaction, if there is one.

        Raises:
            KafkaUnavailable, OutcomeUnknown, PublisherReplaced: the producer cannot be used again;
                what was sent never becomes visible.
        """
        if self._producer is None or self._opened_at is None:
            return
        try:
            self._producer.abort_transaction(self._timeout_s)
        except (KafkaException, SystemError) as error:
            raise self._failed("aborting a transaction", error) from error
        self._opened_at = None

    def close(self) -> None:
        """Abort an open transaction if that is possible at once, and drop the producer."""
        if self._producer is None:
            return
        try:
            if self._opened_at is not None:
                self._producer.abort_transaction(_STEP_S)
        except (KafkaException, SystemError) as error:
            # The next producer with this transactional id aborts it.
            log.info("transaction_left_open", reason=str(error))
        self.abandon()

    def abandon(self) -> None:
        """Drop the producer without waiting for its queued messages."""
        producer, self._producer = self._producer, None
        self._opened_at = None
        if producer is not None:
            try:
                producer.purge()
            except (KafkaException, SystemError) as error:
                log.info("purge_failed", reason=str(error))

    def _alive(self) -> KafkaProducer:
        if self._producer is None:
            raise OutcomeUnknown("the producer failed or was closed. Fix: start a new one")
        return self._producer

    def _produce_when_room(
        self, producer: KafkaProducer, produce: Callable[..., None], topic: str, *message: Any
    ) -> None:
        """Serve delivery reports until librdkafka's queue accepts the message."""
        deadline = self._clock.monotonic() + self._timeout_s
        while True:
            producer.poll(_FULL_QUEUE_POLL_S)
            try:
                produce(topic, *message)
            except BufferError as error:
                if self._clock.monotonic() > deadline:
                    self.abandon()
                    raise KafkaUnavailable(
                        f"topic {topic}: the queue stayed full for {self._timeout_s:g} s: the"
                        " brokers accept nothing"
                    ) from error
            else:
                return

    def _failed(
        self, what: str, error: KafkaException | SystemError, topic: str | None = None
    ) -> PublisherError:
        """Drop the producer after a failed call, and return our error for it."""
        inner = cause_of(error, self._alive(), self._clock)
        if inner is None:
            self.abandon()
            return translate(what, error)
        return self._failed_by(what, inner, topic)

    def _failed_by(self, what: str, inner: KafkaError, topic: str | None = None) -> PublisherError:
        open_s = self.age_s or 0.0
        self.abandon()
        return ended_by(what, inner, topic, open_s, self._transaction_timeout_s)


def _with(headers: Headers, produce: Callable[..., None]) -> Callable[..., None]:
    """Return a produce function that adds headers to messages with a value."""
    given = list(headers)

    def produced(
        topic: str,
        value: bytes | None,
        key: bytes | None,
        partition: int,
        report: OnDelivery | None = None,
    ) -> None:
        produce(topic, value, key, partition, report, None, 0, None if value is None else given)

    return produced
