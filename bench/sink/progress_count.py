"""How many rows are published, from the progress topic, as any subscriber sees it."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from confluent_kafka import OFFSET_BEGINNING, Consumer, TopicPartition

from tailrace.reading.progress import decode
from tailrace_schemas.topics.topic_names import TopicNames

_POLL_S: Final = 0.1
_QUIET_S: Final = 1.0


class ProgressCount:
    """Counts the events of committed Kafka transactions.

    Args:
        consumer: of the one partition of a progress topic.

    Attributes:
        rows: events of the records that were read so far.
    """

    def __init__(self, consumer: Consumer) -> None:
        self._consumer = consumer
        self.rows = 0

    def take(self) -> bool:
        """Read the next record; False where none came in time."""
        message = self._consumer.poll(_POLL_S)
        value = None if message is None or message.error() else message.value()
        if value is None:
            return False
        self.rows += sum(part.count for part in decode(value).partitions)
        return True

    def wait_for(self, rows: int, limit_s: float) -> None:
        """Read until so many rows are published.

        Raises:
            TimeoutError: they are not, in time.
        """
        deadline = time.monotonic() + limit_s
        while self.rows < rows:
            self.take()
            if time.monotonic() > deadline:
                raise TimeoutError(
                    f"{self.rows} of {rows} rows are published after {limit_s:.0f} s"
                )


@contextmanager
def counted_progress(bootstrap: str, prefix: str) -> Iterator[ProgressCount]:
    """Count what is published under a prefix up to now.

    Args:
        prefix: of the topics; there is one progress record at least.
    """
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "bench",
            "isolation.level": "read_committed",
            "enable.auto.commit": False,
        }
    )
    consumer.assign([TopicPartition(TopicNames(prefix).progress, 0, OFFSET_BEGINNING)])
    try:
        count = ProgressCount(consumer)
        deadline = time.monotonic() + _QUIET_S
        while time.monotonic() < deadline:
            count.take()
        yield count
    finally:
        consumer.close()
