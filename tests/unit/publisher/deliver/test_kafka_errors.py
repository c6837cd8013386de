"""What a refused record means: which errors are permanent, and of one topic."""

from __future__ import annotations

import pytest
from confluent_kafka import KafkaError

from tailrace_publisher.deliver.kafka_errors import translate_code, undelivered
from tailrace_publisher.errors import DeliveryRejected, RecordTooLarge, TopicRefused


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


def test_settings_that_no_topic_has_are_refused_with_the_option():
    error = translate_code("creating topic data", KafkaError(KafkaError.INVALID_CONFIG))

    assert isinstance(error, DeliveryRejected)
    assert "kafka.topic_settings" in str(error)
