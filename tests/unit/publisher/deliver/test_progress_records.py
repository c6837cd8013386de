"""Progress records within Kafka's limit of a message."""

import pytest

from tailrace.audit.ledger import Problems, check_chain
from tailrace_publisher.deliver.progress_records import largest_record, progress_records
from tailrace_publisher.encode.records import RecordEncoder
from tailrace_publisher.errors import DeliveryRejected
from tailrace_schemas.records.progress import PROGRESS_SCHEMA, PartitionProgress, Progress


def progress(tables: int, partitions: int, snapshotting: int = 0) -> Progress:
    return Progress(
        shard=0,
        server="airline",
        database="flights",
        after_lsn="00000001:00000001:0001",
        closed_lsn="00000001:00000002:0001",
        closed_commit_ms=1,
        closed=True,
        published_ms=2,
        partitions=[
            PartitionProgress(
                f"warehouse.WideWorldImporters.Sales.CustomerTransactionsHistory{table:04}",
                partition,
                10_000_000_000 + table,
                10_000_000_007 + table,
                7,
                -(1 << 40),
                [123],
            )
            for table in range(tables)
            for partition in range(partitions)
        ],
        snapshotting=[f"warehouse.WideWorldImporters.Sales.T{n}" for n in range(snapshotting)],
    )


def split(
    whole: Progress, bytes_max: int, again: frozenset[str] = frozenset()
) -> tuple[list[Progress], list[int]]:
    """The parts, and the bytes of each."""
    encoder = RecordEncoder(PROGRESS_SCHEMA, 1)
    seen: list[tuple[bytes, Progress]] = []

    def encode(fields: object) -> bytes:
        raw = encoder.encode(fields)  # type: ignore[arg-type]
        seen.append((raw, Progress.from_record(fields)))  # type: ignore[arg-type]
        return raw

    records = progress_records(whole, encode, bytes_max, again)
    parts = [next(part for raw, part in seen if raw == record) for record in records]
    return parts, [len(record) for record in records]


def test_few_partitions_are_one_record():
    whole = progress(3, 12)
    parts, _ = split(whole, 999_000)
    assert parts == [whole]


def test_twelve_thousand_partitions_are_split_into_records_that_fit():
    whole = progress(1000, 12)
    (size,) = split(whole, 10_000_000)[1]
    assert size > 1_000_000, "as one record it would be refused"

    parts, sizes = split(whole, 999_000)

    assert max(sizes) <= 999_000
    assert [entry for part in parts for entry in part.partitions] == whole.partitions
    assert [part.closed for part in parts] == [False] * (len(parts) - 1) + [True]
    assert parts[-1].closed_lsn == whole.closed_lsn
    assert all(part.closed_lsn == whole.after_lsn for part in parts[:-1])
    problems = Problems()
    check_chain(parts, problems)
    assert not problems.count


def test_what_cannot_be_split_is_refused_before_it_is_sent():
    with pytest.raises(DeliveryRejected, match=r"50 tables.*max\.message\.bytes"):
        split(progress(2, 1, snapshotting=50), 1_000)


@pytest.mark.parametrize(
    ("client", "topic", "expected"),
    [
        ({}, {}, 999_000),
        ({}, {"max.message.bytes": "1048588"}, 1_047_588),
        ({}, {"max.message.bytes": "50000000"}, 16_776_216),
        ({"message.max.bytes": "8000000"}, {"max.message.bytes": "1048588"}, 1_047_588),
        ({"message.max.bytes": "8000000"}, {}, 7_999_000),
        ({}, {"max.message.bytes": "5"}, 1_000),
    ],
)
def test_the_smaller_of_both_limits_counts(
    client: dict[str, str], topic: dict[str, str], expected: int
):
    assert largest_record(client, topic) == expected


def test_a_table_that_begins_anew_is_left_out_by_a_record_that_closes_nothing():
    whole = progress(3, 2, snapshotting=3)
    first, second, third = whole.snapshotting
    (between, last), _ = split(whole, 999_000, frozenset({second}))

    assert between.snapshotting == [first, third]
    assert not between.closed
    assert between.closed_lsn == between.after_lsn == whole.after_lsn
    assert between.partitions == []
    assert last == whole
