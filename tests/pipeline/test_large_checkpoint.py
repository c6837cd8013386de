"""A start reads the checkpoint's topic from its beginning, however long the publisher has run."""

from __future__ import annotations

import os
import time
from typing import Any

import pytest
from confluent_kafka import Producer

from tailrace_publisher.checkpoint.partition import partition_reader
from tailrace_publisher.daemon.production import kafka_at
from tests.pipeline.conftest import Pipe
from tests.pipeline.running import Running

pytestmark = pytest.mark.kafka

MANY = 200_000
VERY_MANY = 2_000_000
LONGER_S = 20.0  # five on a quiet machine
CALLBACKS_EVERY = 10_000


@pytest.fixture
def shop(pipe: Pipe) -> Pipe:
    pipe.source.execute(
        "CREATE TABLE dbo.orders (id int PRIMARY KEY)", "INSERT dbo.orders VALUES (1)"
    )
    pipe.source.enable("orders")
    pipe.source.scan()
    return pipe


def started_s(shop: Pipe) -> float:
    """Publish what there is; gives the seconds until the publisher ran."""
    began = time.monotonic()
    with Running(shop.config()) as publisher:
        publisher.until(lambda: bool(publisher.steps), "it runs")
        took_s = time.monotonic() - began
        publisher.until(shop.is_caught_up, "everything is out")
    return took_s


def commit_often(shop: Pipe, records: int) -> None:
    """Write as many records of the database into the checkpoint's topic as so many commits do."""
    kafka, topic = kafka_at(shop.topics.bootstrap), shop.topics.names.offsets
    with partition_reader(kafka, topic) as reader:
        newest = {message.key(): message.value() for message in reader.read_all(30)}
    key = min(newest, key=len)  # the database's own: those of tables name one
    producer = Producer(
        {
            "bootstrap.servers": shop.topics.bootstrap,
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
        if number % CALLBACKS_EVERY == 0:
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


@pytest.mark.parametrize("records", [MANY, pytest.param(VERY_MANY, marks=pytest.mark.slow)])
def test_a_start_after_many_commits_is_as_fast_as_one_after_a_few(shop: Pipe, records: int):
    started_s(shop)
    began_few_s = started_s(shop)
    commit_often(shop, records)
    assert started_s(shop) < began_few_s + LONGER_S
