"""A checkpoint's topic as a publisher leaves it that has run for long."""

from __future__ import annotations

import os
from typing import Any

from confluent_kafka import Producer

from tailrace_publisher.checkpoint.partition import partition_reader
from tailrace_publisher.daemon.adapters.production import kafka_at
from tests.pipeline.conftest import Topics

_CALLBACKS_EVERY = 10_000


def commit_often(topics: Topics, records: int) -> None:
    """Write as many records of the database into the checkpoint's topic as so many commits do.

    Args:
        topics: no publisher writes into them meanwhile.
        records: how many.
    """
    kafka, topic = kafka_at(topics.bootstrap), topics.names.offsets
    with partition_reader(kafka, topic) as reader:
        newest = {message.key(): message.value() for message in reader.read_all(30)}
    key = min(newest, key=len)  # the database's own: those of tables name one
    producer = Producer(
        {
            "bootstrap.servers": topics.bootstrap,
            "linger.ms": 50,
            "batch.size": 900_000,
            "queue.buffering.max.kbytes": 262_144,
            "acks": "all",
        }
    )
    noise = os.urandom(1 << 20)  # what a reader has no need to decode
    size = len(newest[key])
    for number in range(records):
        at = number * 31 % (len(noise) - size)
        _produce(producer, topic, noise[at : at + size], key)
        if number % _CALLBACKS_EVERY == 0:
            producer.poll(0)
    _produce(producer, topic, newest[key], key)
    assert producer.flush(120) == 0


def _produce(producer: Producer, topic: str, value: Any, key: Any) -> None:
    while True:
        try:
            producer.produce(topic, value, key, 0)
        except BufferError:
            producer.poll(0.05)
        else:
            return
