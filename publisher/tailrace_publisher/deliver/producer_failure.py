"""What a failed call of a transactional producer speaks of, and what that means for us."""

from __future__ import annotations

from typing import Final

from confluent_kafka import KafkaError, KafkaException

from tailrace_publisher.deliver.kafka_errors import (
    FENCED,
    IS_FATAL,
    kafka_error,
    translate_code,
)
from tailrace_publisher.errors import DeliveryTimeout, PublisherError
from tailrace_publisher.ports import Clock, KafkaProducer

_CAUSE_S: Final = 1.0
_CAUSE_POLL_S: Final = 0.02


def cause_of(
    error: KafkaException | SystemError, producer: KafkaProducer, clock: Clock
) -> KafkaError | None:
    """The error inside, or the one that the producer died of before; None where nothing tells."""
    inner = kafka_error(error)
    if inner is None or inner.code() == IS_FATAL:
        return fatal_cause(producer, _CAUSE_S, clock) or inner
    return inner


def fatal_cause(producer: KafkaProducer, wait_s: float, clock: Clock) -> KafkaError | None:
    """The error that a producer died of; None when it does not tell within the time, or lives.

    Who produces on a dead producer is told that it is dead, not of what. The error itself comes
    once, as an event that poll raises; afterwards it is the reason why no transaction can begin.
    """
    deadline = clock.monotonic() + wait_s
    while True:
        for ask in (lambda: producer.poll(_CAUSE_POLL_S), producer.begin_transaction):
            try:
                ask()
            except (KafkaException, SystemError) as error:
                inner = kafka_error(error)
                if inner is not None and inner.fatal() and inner.code() != IS_FATAL:
                    return inner
        if clock.monotonic() >= deadline:
            return None


def ended_by(
    what: str, inner: KafkaError, topic: str | None, open_s: float, limit_s: float
) -> PublisherError:
    """Our error for what ended a producer.

    Args:
        what: what was being done.
        inner: librdkafka's error.
        topic: the data topic that it was done with, where that is known.
        open_s: how long its transaction was open.
        limit_s: after which the brokers abort one.
    """
    if inner.code() in FENCED and open_s >= limit_s:
        # The brokers answer alike when they aborted a transaction for its age and when another
        # publisher took over. Starting again settles it: of two, only the newer one goes on.
        return DeliveryTimeout(
            f"{what}: open for {open_s:.0f} s, the brokers abort after {limit_s:g} s",
            code=inner.code(),
        )
    return translate_code(what, inner, topic)
