"""Reading a partition gives up only when nothing more comes, however long all of it takes."""

from __future__ import annotations

from typing import Any

import pytest

from tailrace_publisher.checkpoint.partition import PartitionReader
from tailrace_publisher.errors import CheckpointUnavailable
from tailrace_publisher.ports import KafkaAccess

PATIENCE_S = 10.0


class SlowBrokers:
    """A partition of which one record comes at a time, and the clock that it takes."""

    def __init__(self, records: int, pause_s: float) -> None:
        self.time_s = 0.0
        self._records = records
        self._pause_s = pause_s
        self._next = 0

    def monotonic(self) -> float:
        return self.time_s

    def assign(self, partitions: list[Any], /) -> None:
        """There is one."""

    def get_watermark_offsets(self, _: Any, __: float, /) -> tuple[int, int]:
        return 0, self._records

    def consume(self, *_: Any) -> list[Any]:
        self.time_s += self._pause_s
        if self._next == self._records:
            return []
        self._next += 1
        return [Record(self._next - 1)]


class Record:
    def __init__(self, offset: int) -> None:
        self._offset = offset

    def error(self) -> None:
        return None

    def offset(self) -> int:
        return self._offset


def read(records: int, pause_s: float, end: int) -> int:
    brokers: Any = SlowBrokers(records, pause_s)
    reader = PartitionReader(brokers, KafkaAccess(brokers, {}, brokers), "p.offsets")
    return len(list(reader.read(0, end, PATIENCE_S)))


def test_a_long_topic_is_read_however_long_it_takes():
    assert read(records=1000, pause_s=PATIENCE_S / 2, end=1000) == 1000


def test_it_gives_up_when_nothing_more_comes():
    with pytest.raises(CheckpointUnavailable, match=r"only to 3, and no record arrived for 10 s"):
        read(records=3, pause_s=1.0, end=4)
