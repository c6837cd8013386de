"""The request for a snapshot: a signal in the topic from which the publisher reads it.

So a request survives if the publisher ends before it reads the signal, and all clients use one way.
"""

from __future__ import annotations

from typing import Any

from confluent_kafka import KafkaException

from tailrace_publisher.errors import DeliveryRejected, KafkaUnavailable
from tailrace_publisher.ports import KafkaAccess


def send_signal(
    kafka: KafkaAccess, topic: str, database: str, signal: bytes, limit_s: float
) -> int:
    """Write a signal.

    Args:
        database: the database whose publisher it addresses.
        signal: value of the record.
        limit_s: how long to wait for the brokers, seconds.

    Returns:
        Its offset.

    Raises:
        DeliveryRejected: the topic refuses it.
        KafkaUnavailable: no broker answered in time.
    """
    reports: list[tuple[Any, Any]] = []
    try:
        producer = kafka.clients.producer(
            {
                **kafka.options,
                "enable.idempotence": True,
                "log_level": 2,
                "message.timeout.ms": round(limit_s * 1000),
            }
        )
        producer.produce(
            topic, signal, database.encode(), -1, lambda *report: reports.append(report)
        )
        producer.flush(limit_s)
    except KafkaException as error:
        raise DeliveryRejected(f"topic {topic}: {error.args[0].str()}") from error
    if not reports:
        raise KafkaUnavailable(f"no broker took the signal within {limit_s:g} s")
    refusal, message = reports[0]
    if refusal is not None:
        raise DeliveryRejected(
            f"topic {topic} refused the signal ({refusal.str()}). Fix: start the publisher, which"
            " creates the topic; if it exists, grant Write on it"
        )
    return int(message.offset())
