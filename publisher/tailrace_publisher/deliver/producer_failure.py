"""The cause of a transactional producer's failed call, and our error for it."""

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
    """Return the error inside, or the earlier one that killed the producer; None if unknown."""
    inner = kafka_error(error)
    if inner is None or inner.code() == IS_FATAL:
        return fatal_cause(producer, _CAUSE_S, clock) or inner
    return inner


def fatal_cause(producer: KafkaProducer, wait_s: float, clock: Clock) -> KafkaError | None:
    """Return the error that killed a producer; None if it lives or does not report it in time.

    A call on a dead producer reports that it is dead, not why. The error itself arrives once, as an
    event that poll raises. Afterwards it is the reason why begin_transaction fails.
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
    """Return our error for what ended a producer.

    Args:
        what: the action that failed.
        topic: the data topic of the action; None if unknown.
        open_s: how long its transaction was open.
    """
    if inner.code() in FENCED and open_s >= limit_s:
        # The brokers give the same answer if they aborted a transaction for its age and if another
        # publisher took over. A new start settles it: of two publishers, only the newer continues.
        return DeliveryTimeout(
            f"{what}: open for {open_s:.0f} s, the brokers abort after {limit_s:g} s",
            code=inner.code(),
        )
    return translate_code(what, inner, topic)
