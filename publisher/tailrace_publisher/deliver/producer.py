"""The transactional producer: begin, queue, flush, commit, and what a failure of each means.

What is known after a failure:

- before the commit was asked for, the transaction will never be visible: the next producer with
  this transactional id aborts it;
- a commit that timed out is neither done nor undone. Only asking again may resolve it (an abort is
  refused by the protocol), so it is asked again until ``timeout_s``;
- all other doubt ends in ``OutcomeUnknown``: a new producer fences this one, and the checkpoint,
  read back, tells what was committed.

A producer that failed is let go of at once: after a fatal error nothing it says can be trusted
(produce and begin_transaction succeed on a fenced one, as they are local).
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
        transactional_id: whoever starts with it fences the one before.
        transaction_timeout_ms: after which the brokers abort a transaction by themselves.
        timeout_s: longest wait for the brokers in any one call.
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
        self._began: float | None = None
        self._producer: KafkaProducer | None = kafka.clients.producer(
            producer_options(transactional_id, transaction_timeout_ms, kafka.options)
        )

    @property
    def age_s(self) -> float | None:
        """Seconds since the open transaction began; None without one."""
        return None if self._began is None else self._clock.monotonic() - self._began

    def init_transactions(self, timeout_s: float) -> None:
        """Fence the producer before and abort what it left open.

        Raises:
            KafkaUnavailable: no broker answered in time.
            DeliveryRejected: not allowed.
        """
        try:
            self._alive().init_transactions(timeout_s)
        except (KafkaException, SystemError) as error:
            raise self._failed(f"init_transactions of {self._transactional_id}", error) from error

    def begin(self) -> None:
        """Begin a transaction unless one is open; local, so it does not notice being fenced."""
        producer = self._alive()
        if self._began is None:
            try:
                producer.begin_transaction()
            except (KafkaException, SystemError) as error:
                raise self._failed("beginning a transaction", error) from error
            self._began = self._clock.monotonic()

    def produce(
        self,
        topic: str,
        messages: Iterable[tuple[bytes | None, bytes | None, int]],
        reports: Mapping[int, OnDelivery],
        headers: Headers | None = None,
    ) -> None:
        """Queue messages in order.

        Args:
            topic: where to.
            messages: (key, value, partition) each.
            reports: delivery callbacks by index of the message; they must not raise.
            headers: of those that have a value; None for none.

        Raises:
            KafkaUnavailable: the queue stays full: the brokers take nothing.
            RecordTooLarge: a message is larger than message.max.bytes of the producer.
            OutcomeUnknown, PublisherReplaced: the producer is used up.
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

    def flush(self, failure: Callable[[], PublisherError | None] = lambda: None) -> None:
        """Wait until every message is delivered and reported.

        librdkafka holds back what is behind a refused message, and says nothing until the commit
        is asked for; so delivery reports are looked at while waiting.

        Args:
            failure: what a delivery report said, None while all is well.

        Raises:
            DeliveryTimeout: not within the time; nothing is committed.
            PublisherError: what ``failure`` gave; nothing is committed.
            OutcomeUnknown, PublisherReplaced: the producer is used up.
        """
        producer = self._alive()
        deadline = self._clock.monotonic() + self._timeout_s
        remaining = 1
        try:
            while remaining:
                remaining = producer.flush(_STEP_S)
                if (refused := failure()) is not None:
                    # A fatal error fails every record that waits, in words of its own.
                    if (cause := fatal_cause(producer, 0, self._clock)) is not None:
                        raise self._failed_by("delivering records", cause)
                    self.abandon()
                    raise refused
                if remaining:
                    log.warning("waiting_for_kafka", records_not_delivered=remaining)
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
                self._began = None
                return

    def abort(self) -> None:
        """Abort the open transaction; nothing happens when there is none.

        Raises:
            KafkaUnavailable, OutcomeUnknown, PublisherReplaced: the producer cannot be used again;
                what was sent never becomes visible.
        """
        if self._producer is None or self._began is None:
            return
        try:
            self._producer.abort_transaction(self._timeout_s)
        except (KafkaException, SystemError) as error:
            raise self._failed("aborting a transaction", error) from error
        self._began = None

    def close(self) -> None:
        """Abort an open transaction as far as that is possible at once, and let the producer go."""
        if self._producer is None:
            return
        try:
            if self._began is not None:
                self._producer.abort_transaction(_STEP_S)
        except (KafkaException, SystemError) as error:
            # The next producer with this transactional id aborts it.
            log.info("transaction_left_open", reason=str(error))
        self.abandon()

    def abandon(self) -> None:
        """Let the producer go without waiting for what it still holds."""
        producer, self._producer = self._producer, None
        self._began = None
        if producer is not None:
            try:
                producer.purge()
            except (KafkaException, SystemError) as error:
                log.info("purge_failed", reason=str(error))

    def _alive(self) -> KafkaProducer:
        if self._producer is None:
            raise OutcomeUnknown("the producer is used up: start a new one")
        return self._producer

    def _produce_when_room(
        self, producer: KafkaProducer, produce: Callable[..., None], topic: str, *message: Any
    ) -> None:
        """Serve delivery reports until librdkafka's queue takes the message."""
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
                        " brokers take nothing"
                    ) from error
            else:
                return

    def _failed(
        self, what: str, error: KafkaException | SystemError, topic: str | None = None
    ) -> PublisherError:
        """Our error for a failed call; the producer is used up after it."""
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
    """What queues a message with headers, if it has a value."""
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
