"""The ledger's arithmetic and the choice of partitions; the broker is in tests/pipeline."""

from __future__ import annotations

import zlib

import pytest

from tailrace_publisher.deliver.ledger import Ledger, PartitionLedger
from tailrace_publisher.deliver.partitioning import choose_partitions, murmur2
from tailrace_publisher.deliver.tombstones import with_tombstones
from tailrace_publisher.encode.encoded_events import EncodedRows
from tailrace_publisher.errors import ForeignRecords, OutcomeUnknown, TopicRefused
from tailrace_publisher.options.kafka import Partitioner
from tailrace_schemas.events.framing import frame_header
from tailrace_schemas.records.progress import OperationCounts, PartitionProgress
from tests.property.oracle import position_sum


class Report:
    def __init__(self, offset: int | None) -> None:
        self._offset = offset

    def offset(self) -> int | None:
        return self._offset


def entry(messages: int, *offsets: int | None) -> PartitionLedger:
    ledger = PartitionLedger("t", 1)
    ledger.messages = messages
    for offset in offsets:
        ledger.on_delivery(None, Report(offset))
    return ledger


def test_counts_bytes_and_hashes_by_partition() -> None:
    ledger = Ledger()
    operations = [0, 0, 1, 2, 4, 4]
    positions = [bytes([n]) * 24 + bytes([op]) for n, op in enumerate(operations)]
    values = [b"v" * (10 ** (n % 3)) for n in range(6)]
    partitions = [0, 1, 0, 1, 1, 2]
    ledger.add(EncodedRows("t", 7, positions, [None] * 6, values), partitions)
    ledger.add(EncodedRows("t", 8, positions[:1], [None], [b"12345"]), [2])
    ledger.add(EncodedRows("a", 9, positions[:1], [None], [b""]), [0])
    for topic, partition, messages in (("t", 0, 2), ("t", 1, 3), ("t", 2, 2), ("a", 0, 1)):
        one = ledger.entry(topic, partition)
        one.messages = messages
        one.on_delivery(None, Report(100))
        one.on_delivery(None, Report(100 + messages - 1))

    def counted(
        topic: str, partition: int, n: list[int], ids: list[int], size: int, by_op: OperationCounts
    ) -> PartitionProgress:
        total = position_sum([positions[i] for i in n])
        return PartitionProgress(
            topic, partition, 100, 100 + len(n), len(n), total, ids, size, by_op
        )

    assert ledger.progress() == [
        counted("a", 0, [0], [9], 0, OperationCounts(reads=1)),
        counted("t", 0, [0, 2], [7], 101, OperationCounts(reads=1, deletes=1)),
        counted("t", 1, [1, 3, 4], [7], 21, OperationCounts(reads=1, creates=1, updates=1)),
        counted("t", 2, [5, 0], [7, 8], 105, OperationCounts(reads=1, updates=1)),
    ]


def test_where_operations_are_left_out_the_ledger_does_not_count_them() -> None:
    """By creates alone a reader would take keys for new: their deletes may have been left out."""
    ledger = Ledger()
    ledger.add(EncodedRows("t", 7, [bytes(24) + b"\2"], [None], [b""]), [0])
    ledger.add(EncodedRows("t", 7, [bytes(24) + b"\2"], [None], [b""], lacks_operations=True), [0])
    ledger.entry("t", 0).messages = 2
    ledger.entry("t", 0).on_delivery(None, Report(0))
    ledger.entry("t", 0).on_delivery(None, Report(1))

    (counted,) = ledger.progress()

    assert (counted.count, counted.operations) == (2, None)


@pytest.mark.parametrize("offsets", [(), (None,), (-1001,), (5, None)])
def test_an_unknown_offset_is_doubt(offsets: tuple[int | None, ...]) -> None:
    with pytest.raises(OutcomeUnknown, match="topic t partition 1"):
        entry(1, *offsets).progress()


def test_a_failed_report_is_doubt_and_the_first_one_is_kept() -> None:
    ledger = entry(2, 5)
    ledger.on_delivery("first", Report(None))
    ledger.on_delivery("second", Report(None))
    with pytest.raises(OutcomeUnknown, match="first"):
        ledger.progress()


@pytest.mark.parametrize("offsets", [(11, 10, 16), (16, 10), (10, 16, 12)])
def test_reports_may_come_in_any_order(offsets: tuple[int, ...]) -> None:
    """A new leader confirms what the old one had written behind what was sent to it later."""
    found = entry(7, *offsets).progress()
    assert (found.first_offset, found.next_offset) == (10, 17)


def test_foreign_records_among_ours_are_worth_a_retry_and_name_their_topic() -> None:
    with pytest.raises(ForeignRecords, match="another producer writes") as refused:
        entry(3, 10, 13).progress()
    assert (refused.value.retryable, refused.value.topic) == (True, "t")


def test_records_that_were_confirmed_and_are_not_there_are_worth_none() -> None:
    """A retry could not give them back: something happened to the topic."""
    with pytest.raises(TopicRefused, match="do not have") as refused:
        entry(3, 10, 11).progress()
    assert (refused.value.retryable, refused.value.topic) == (False, "t")


def test_a_new_key_schema_does_not_move_keys() -> None:
    payloads = [bytes([n, n]) for n in range(100)]
    first = choose_partitions([frame_header(1) + payload for payload in payloads], 7)
    second = choose_partitions([frame_header(2) + payload for payload in payloads], 7)
    assert first == second == [zlib.crc32(payload) % 7 for payload in payloads]
    assert len(set(first)) == 7


def test_events_without_key_keep_their_order_in_partition_0() -> None:
    assert choose_partitions([None, None], 7) == [0, 0]


def test_tombstones_follow_their_deletes() -> None:
    keys: list[bytes | None] = [b"a", b"b", b"c", b"d"]
    encoded = EncodedRows("t", 1, [b""] * 4, keys, [b"1", b"2", b"3", b"4"], [0, 2])
    got = with_tombstones(encoded, [5, 6, 7, 8])
    assert got == (
        [b"a", b"a", b"b", b"c", b"c", b"d"],
        [b"1", None, b"2", b"3", None, b"4"],
        [5, 5, 6, 7, 7, 8],
    )


@pytest.mark.parametrize(
    ("data", "signed_hash"),
    [
        (b"21", -973932308),
        (b"foobar", -790332482),
        (b"a-little-bit-long-string", -985981536),
        (b"a-little-bit-longer-string", -1486304829),
        (b"lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8", -58897971),
        (b"abc", 479470107),
    ],
)
def test_murmur2_is_that_of_kafkas_java_client(data: bytes, signed_hash: int) -> None:
    """The values of Apache Kafka's own UtilsTest."""
    assert murmur2(data) == signed_hash & 0xFFFFFFFF
    (partition,) = choose_partitions([data], 7, Partitioner.MURMUR2)
    assert partition == (signed_hash & 0x7FFFFFFF) % 7
