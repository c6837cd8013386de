"""What a refused record means: which errors are permanent, and of one topic."""

from __future__ import annotations

from pathlib import Path

import pytest
from confluent_kafka import KafkaError

from tailrace_publisher.daemon.adapters.production import ConfluentClients
from tailrace_publisher.deliver.kafka_errors import translate_code, undelivered
from tailrace_publisher.deliver.sent import Sent
from tailrace_publisher.errors import (
    ClientUnusable,
    ConfigError,
    DeliveryRejected,
    OutcomeUnknown,
    RecordTooLarge,
    TopicRefused,
)


@pytest.mark.parametrize(
    ("code", "kind", "fix"),
    [
        (KafkaError.MSG_SIZE_TOO_LARGE, RecordTooLarge, "max.message.bytes"),
        (KafkaError.RECORD_LIST_TOO_LARGE, RecordTooLarge, "segment.bytes"),
        (KafkaError.INVALID_RECORD, TopicRefused, "demands a key"),
        (KafkaError._INVALID_DIFFERENT_RECORD, TopicRefused, "demands a key"),
        (KafkaError.INVALID_TIMESTAMP, TopicRefused, "clocks"),
        (KafkaError.TOPIC_AUTHORIZATION_FAILED, TopicRefused, "grant Write"),
    ],
)
def test_a_record_that_brokers_refuse_for_good_stops_the_table_of_its_topic(
    code: int, kind: type[TopicRefused], fix: str
):
    error = undelivered("data", 1, KafkaError(code))

    assert type(error) is kind
    assert isinstance(error, TopicRefused)
    assert (error.topic, error.retryable, error.of_one_table) == ("data", False, True)
    assert str(error).startswith("topic data partition 1: ")
    assert fix in str(error).partition("Fix: ")[2]


def test_the_partition_that_is_refused_counts_before_those_that_are_purged_with_it():
    sent = Sent("letters")
    for topic in ("orders", "outbox"):
        sent.ledger.entry(topic, 0).on_delivery(KafkaError(KafkaError._PURGE_QUEUE), None)
    unknown = sent.failure()
    for topic, code in (
        ("shop.outbox.a", KafkaError._PURGE_QUEUE),
        ("shop.outbox.b", KafkaError.TOPIC_AUTHORIZATION_FAILED),
    ):
        sent.messages.of("outbox", topic, 0)(KafkaError(code), None)
    known = sent.failure()

    assert isinstance(unknown, OutcomeUnknown)
    assert isinstance(known, TopicRefused)
    assert known.topic == "outbox"
    assert "shop.outbox.b" in str(known)


def test_settings_that_no_topic_has_are_refused_with_the_option():
    error = translate_code("creating topic data", KafkaError(KafkaError.INVALID_CONFIG))

    assert isinstance(error, DeliveryRejected)
    assert "kafka.topic_settings" in str(error)


def test_a_client_that_cannot_be_created_may_be_created_later(tmp_path: Path):
    """A certificate that is being replaced is no reason to end a publisher that has published."""
    options = {"security.protocol": "ssl", "ssl.ca.location": str(tmp_path / "gone.pem")}

    with pytest.raises(ClientUnusable, match=r"check the ssl\.\*") as raised:
        ConfluentClients().admin(options)
    assert raised.value.may_heal
    assert not raised.value.retryable
    assert not ConfigError(["x"]).may_heal
