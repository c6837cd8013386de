"""librdkafka's error codes as errors of this project."""

# ruff: noqa: SLF001 - the names of librdkafka's own (not the broker's) codes begin with an underscore

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from confluent_kafka import KafkaError, KafkaException

from tailrace_publisher.errors import (
    DeliveryError,
    DeliveryRejected,
    KafkaUnavailable,
    OutcomeUnknown,
    PublisherError,
    PublisherReplaced,
    RecordTooLarge,
    TopicRefused,
)

FENCED: Final = frozenset(
    {
        KafkaError._FENCED,
        KafkaError.PRODUCER_FENCED,
        KafkaError.INVALID_PRODUCER_EPOCH,
        KafkaError.TRANSACTION_COORDINATOR_FENCED,
    }
)
IS_FATAL: Final = KafkaError._FATAL
"""The producer died earlier, of an error that this code does not name."""
_UNAVAILABLE: Final = frozenset(
    {
        KafkaError._TRANSPORT,
        KafkaError._ALL_BROKERS_DOWN,
        KafkaError._TIMED_OUT,
        KafkaError._TIMED_OUT_QUEUE,
        KafkaError._MSG_TIMED_OUT,
        KafkaError._RESOLVE,
        KafkaError._WAIT_COORD,
        KafkaError.REQUEST_TIMED_OUT,
        KafkaError.COORDINATOR_NOT_AVAILABLE,
        KafkaError.COORDINATOR_LOAD_IN_PROGRESS,
        KafkaError.NOT_COORDINATOR,
        KafkaError.NOT_CONTROLLER,
        KafkaError.LEADER_NOT_AVAILABLE,
        KafkaError.NOT_LEADER_FOR_PARTITION,
        KafkaError.NOT_ENOUGH_REPLICAS,
        KafkaError.NOT_ENOUGH_REPLICAS_AFTER_APPEND,
        KafkaError.BROKER_NOT_AVAILABLE,
        KafkaError.NETWORK_EXCEPTION,
    }
)
_INVALID_RECORD: Final = (
    "remove what the topic or its brokers demand of records: a compacted topic (cleanup.policy)"
    " demands a key, and brokers that check schemas (*.schema.validation) demand registered ones"
)
_FIXES: Final = {
    KafkaError.MSG_SIZE_TOO_LARGE: (
        "raise max.message.bytes of the topic (above 16 MiB kafka.extra message.max.bytes, too),"
        " or capture the table without its large column"
    ),
    KafkaError.RECORD_LIST_TOO_LARGE: (
        "raise segment.bytes of the topic, or capture the table without its large column"
    ),
    KafkaError.INVALID_RECORD: _INVALID_RECORD,
    KafkaError._INVALID_DIFFERENT_RECORD: _INVALID_RECORD,
    KafkaError.INVALID_TIMESTAMP: (
        "set the clocks of publisher and brokers, or widen message.timestamp.before.max.ms and"
        " message.timestamp.after.max.ms of the topic"
    ),
    KafkaError.INVALID_CONFIG: "correct kafka.topic_settings or kafka.topic_rules",
    KafkaError.TOPIC_AUTHORIZATION_FAILED: "grant Write, Describe and Create on the topic",
    KafkaError.TRANSACTIONAL_ID_AUTHORIZATION_FAILED: "grant Write on the transactional id",
    KafkaError.CLUSTER_AUTHORIZATION_FAILED: "grant IdempotentWrite on the cluster",
    KafkaError.SASL_AUTHENTICATION_FAILED: "check sasl.username and sasl.password in kafka.extra",
    KafkaError._AUTHENTICATION: "check the sasl.* and ssl.* options in kafka.extra",
    KafkaError.UNKNOWN_TOPIC_OR_PART: (
        "take a new snapshot of the table, which creates the topic again: it was deleted, and its"
        " events with it"
    ),
    KafkaError.INVALID_TRANSACTION_TIMEOUT: (
        "lower kafka.transaction_timeout_s, or raise transaction.max.timeout.ms of the brokers"
    ),
    KafkaError.INVALID_REPLICATION_FACTOR: (
        "lower kafka.replication_factor: it exceeds the number of brokers"
    ),
    KafkaError.POLICY_VIOLATION: (
        "create the topic yourself: the brokers' create.topic.policy refuses it"
    ),
    KafkaError.TOPIC_EXCEPTION: "choose another prefix: the topic's name is not valid",
}

_OF_ONE_TOPIC: Final[Mapping[int, type[TopicRefused]]] = {
    KafkaError.MSG_SIZE_TOO_LARGE: RecordTooLarge,
    KafkaError.RECORD_LIST_TOO_LARGE: RecordTooLarge,
    KafkaError.INVALID_RECORD: TopicRefused,
    KafkaError._INVALID_DIFFERENT_RECORD: TopicRefused,
    KafkaError.INVALID_TIMESTAMP: TopicRefused,
    KafkaError.TOPIC_AUTHORIZATION_FAILED: TopicRefused,
    KafkaError.UNKNOWN_TOPIC_OR_PART: TopicRefused,
}
"""Errors that stop only the table of one topic."""


def kafka_error(error: KafkaException | SystemError) -> KafkaError | None:
    """Return the error inside, or None for a SystemError that does not carry one.

    confluent-kafka raises SystemError from flush, poll and commit if a fatal error arrives while a
    delivery report is pending (seen in 2.16.1). The callback is called with the exception already
    set, and Python turns it into the cause. The producer is as dead as after the exception itself.
    """
    cause = error if isinstance(error, KafkaException) else error.__cause__
    if isinstance(cause, KafkaException) and cause.args:
        inner = cause.args[0]
        if isinstance(inner, KafkaError):
            return inner
    return None


def translate(
    what: str, error: KafkaException | SystemError, topic: str | None = None
) -> PublisherError:
    """Return our error for one of librdkafka's.

    Args:
        what: the action that failed, such as "committing a transaction".
        topic: the data topic of the action; None if unknown.
    """
    inner = kafka_error(error)
    if inner is None:
        return OutcomeUnknown(f"{what}: the producer died ({error!r})")
    return translate_code(what, inner, topic)


def unusable_options(error: KafkaException) -> str:
    """Return the message for options with which librdkafka creates no client."""
    inner = kafka_error(error)
    reason = str(error) if inner is None else inner.str()
    return (
        f"kafka.extra: the Kafka client cannot be created ({reason}). Fix: check the ssl.* and"
        " sasl.* options, the files that they name, and ssl.key.password, also in kafka.extra_files"
    )


def undelivered(topic: str, partition: int, failure: object) -> PublisherError:
    """Return our error for a failed delivery report; its transaction cannot be committed."""
    where = f"topic {topic} partition {partition}"
    if not isinstance(failure, KafkaError):
        return OutcomeUnknown(f"{where}: a record was not delivered: {failure}")
    error = translate_code(f"{where}: a record was not delivered", failure, topic)
    # An error that is not known to be permanent may go away with a new producer.
    is_known = isinstance(error, PublisherReplaced) or error.retryable or failure.code() in _FIXES
    return error if is_known else OutcomeUnknown(str(error))


def translate_code(what: str, inner: KafkaError, topic: str | None = None) -> PublisherError:
    """Return our error for a code.

    Args:
        what: the action that failed.
        topic: the data topic of the action; None if unknown.
    """
    code = inner.code()
    reason = f"{what}: {inner.name()}: {inner.str()}"
    if code in FENCED:
        return PublisherReplaced(
            f"{reason}: another publisher with the same transactional id has taken over"
        )
    if topic is not None and code in _OF_ONE_TOPIC:
        return _OF_ONE_TOPIC[code](f"{reason}. Fix: {_FIXES[code]}", topic=topic, code=code)
    if code in _FIXES:
        return DeliveryRejected(f"{reason}. Fix: {_FIXES[code]}", code=code)
    if code in _UNAVAILABLE:
        return KafkaUnavailable(reason, code=code)
    if code == IS_FATAL or inner.fatal() or inner.txn_requires_abort() or inner.retriable():
        return OutcomeUnknown(reason, code=code)
    return DeliveryError(reason, code=code)
