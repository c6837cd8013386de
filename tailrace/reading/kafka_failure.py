"""What a failed request to the brokers means: which brokers, why, and the fix."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tailrace_publisher.deliver.kafka_errors import kafka_error, translate
from tailrace_publisher.errors import KafkaUnavailable, PublisherError
from tailrace_service.tls_problems import broker_certificate_problem

if TYPE_CHECKING:
    from confluent_kafka import KafkaException

    from tailrace_publisher.options.kafka import KafkaConfig

_CERTIFICATE_S = 2.0


def kafka_failure(kafka: KafkaConfig, error: KafkaException | None = None) -> PublisherError:
    """Return our error for one of a command's client.

    Args:
        error: None if the brokers did not answer in time.
    """
    inner = None if error is None else kafka_error(error)
    if error is not None and inner is not None:
        typed = translate(f"Kafka at {kafka.bootstrap}", error)
        if not isinstance(typed, KafkaUnavailable):
            return typed
    options = kafka.librdkafka_options()
    untrusted = broker_certificate_problem(kafka.bootstrap, options, _CERTIFICATE_S)
    reason = "" if inner is None else f" ({inner.str()})"
    return KafkaUnavailable(
        untrusted
        or f"Kafka at {kafka.bootstrap} does not answer{reason}. Fix: start a broker there, or"
        " check kafka.bootstrap, and security.protocol and sasl.* in kafka.extra"
    )
