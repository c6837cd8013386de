"""Refuse to start a second publisher by mistake: it would end the one that runs.

A start fences the earlier producer, so of two publishers of one database the newer would survive.
Before it starts, ``tailrace publish`` reads the newest progress record. A publisher writes one
every ``heartbeat_s``, with its host and process id in a header.
"""

from __future__ import annotations

import os
import socket
import time
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition

from tailrace.reading.progress import newest_message
from tailrace.reading.topics import consumer_of
from tailrace_schemas.records.progress import PUBLISHER_HEADER

if TYPE_CHECKING:
    from tailrace_publisher.options.publisher_config import PublisherConfig

_SILENT_HEARTBEATS = 3


class AnotherPublisherRuns(Exception):
    """The database is being published by another process."""


@dataclass(frozen=True, slots=True)
class LastSign:
    """The newest progress record.

    Attributes:
        host: where its publisher ran; empty in records of earlier releases.
        process: its process id there; 0 in the same.
        age_s: seconds since it was written, by two clocks.
    """

    host: str
    process: int
    age_s: float
    next_offset: int

    def may_live(self, heartbeat_s: float) -> bool:
        """Whether its publisher may run still: nothing else proves that it does not."""
        if self.age_s > _SILENT_HEARTBEATS * heartbeat_s:
            return False
        return self.host != socket.gethostname() or _is_another_process(self.process)

    @property
    def publisher(self) -> str:
        """As messages name it."""
        return f"process {self.process} on {self.host}" if self.host else "another process"


def refuse_second(configs: Iterable[PublisherConfig]) -> None:
    """Check that no other process publishes a database now.

    A publisher that ended without a word on another host is waited for: one heartbeat.

    Raises:
        AnotherPublisherRuns: one does; names it.
    """
    for config in configs:
        if not config.fleet.join:  # the fleet's group decides who publishes
            _check(config)


def _check(config: PublisherConfig) -> None:
    from tailrace_publisher.errors import PublisherError

    kafka, topic = config.kafka, config.topics.progress
    try:
        consumer = consumer_of(kafka.bootstrap, kafka.librdkafka_options())
        try:
            sign = _last_sign(consumer, TopicPartition(topic, 0), kafka.start_timeout_s)
            if sign is None or not sign.may_live(config.heartbeat_s):
                return
            consumer.assign([TopicPartition(topic, 0, sign.next_offset)])
            newer = _next_message(consumer, time.monotonic() + config.heartbeat_s + 1)
        finally:
            consumer.close()
    except (KafkaException, PublisherError):
        return  # the publisher itself waits for brokers, and says what is wrong with them
    if newer is not None:
        found = _sign_of(newer)
        raise AnotherPublisherRuns(
            f"database {config.source.database} is published under prefix {config.prefix} by"
            f" {found.publisher}: its newest progress record is {found.age_s:.0f} s old. Fix: stop"
            " that publisher first, or give this one a prefix of its own; --take-over ends the"
            " other one"
        )


def _last_sign(consumer: Consumer, where: TopicPartition, timeout_s: float) -> LastSign | None:
    topic = consumer.list_topics(where.topic, timeout=timeout_s).topics[where.topic]
    if topic.error is not None or not topic.partitions:
        return None
    newest = newest_message(consumer, where, timeout_s)
    return None if newest is None else _sign_of(newest)


def _next_message(consumer: Consumer, deadline: float) -> Any:
    """The next record; None after the time. The end of the partition is not the end of the wait."""
    while (left_s := deadline - time.monotonic()) > 0:
        message = consumer.poll(left_s)
        if message is None:
            return None
        error = message.error()
        if error is None:
            return message
        if error.code() != KafkaError._PARTITION_EOF:  # noqa: SLF001 - librdkafka's own code
            raise KafkaException(error)
    return None


def _sign_of(message: Any) -> LastSign:
    headers = dict(message.headers() or ())
    host, _, process = (headers.get(PUBLISHER_HEADER) or b"").decode().rpartition(":")
    age_s = max(0.0, time.time() - message.timestamp()[1] / 1000)
    return LastSign(host, int(process or 0), age_s, message.offset() + 1)


def _is_another_process(process: int) -> bool:
    """Whether a process of this host runs, and is not this one: containers give ids again."""
    if process == os.getpid():
        return False
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True
