"""What is told of several databases, and records from before there was one publisher of each."""

from __future__ import annotations

import pytest
from prometheus_client import generate_latest

from tailrace.reading.progress import DividedIntoShards, decode
from tailrace_publisher.daemon.status.labelled_metrics import LabelledMetrics
from tailrace_publisher.encode.records import RecordEncoder
from tailrace_publisher.metrics.publisher_metrics import Metrics
from tailrace_schemas.records.progress import ONE_SHARD_SCHEMA, PROGRESS_SCHEMA, Progress


def test_counts_have_their_database():
    metrics = LabelledMetrics("database")
    for number, name in enumerate(("crm", "shop")):
        counts = Metrics()
        metrics.parts[name] = counts.registry
        counts.rows.labels(topic="t").inc(number + 1)
    text = generate_latest(metrics).decode()
    assert 'tailrace_rows_total{database="crm",topic="t"} 1.0' in text
    assert 'tailrace_rows_total{database="shop",topic="t"} 2.0' in text
    assert text.count("# TYPE tailrace_rows_total counter") == 1


def test_records_without_a_number_of_shards_are_of_one():
    record = Progress(0, "s", "d", "a", "b", None, closed=True, published_ms=1, shards=3)
    with pytest.raises(DividedIntoShards):
        decode(RecordEncoder(PROGRESS_SCHEMA, 7).encode(record.to_record()))
    record = Progress(0, "s", "d", "a", "b", None, closed=True, published_ms=1)
    assert decode(RecordEncoder(PROGRESS_SCHEMA, 7).encode(record.to_record())).shards == 1
    assert decode(RecordEncoder(ONE_SHARD_SCHEMA, 7).encode(record.to_record())).shards == 1


WRITTEN_BY_0_1 = (
    "0000000001000e73686f702d65750853686f702c30303030303032323a30303030303034383a303030342c3030303030"
    "3032323a30303030303036303a303030330282fc9be0c16801fc919ce0c168042c73686f702d65752e53686f702e6462"
    "6f2e6c696e6573000608028ed2dfee08020c002e73686f702d65752e53686f702e64626f2e6f726465727300060c04a4"
    "b2fcb017020a000000"
)


def test_records_of_release_0_1_are_read():
    record = decode(bytes.fromhex(WRITTEN_BY_0_1))
    assert (record.closed_lsn, record.shards) == ("00000022:00000060:0003", 1)
    assert [(part.topic, part.count, part.operations) for part in record.partitions] == [
        ("shop-eu.Shop.dbo.lines", 1, None),
        ("shop-eu.Shop.dbo.orders", 2, None),
    ]


def test_a_record_of_no_known_form_is_refused():
    with pytest.raises(ValueError, match="no known form"):
        decode(bytes.fromhex(WRITTEN_BY_0_1) + b"\0")
