"""What the publisher counts."""

import math

from prometheus_client import generate_latest

from tailrace_publisher.metrics.publisher_metrics import Metrics
from tailrace_service.status import TableStatus


def test_a_commit_makes_no_series_of_its_own():
    """An LSN as a label would be a new series at each scrape: /status has it."""
    metrics = Metrics(clock=lambda: 1000.0)

    def series() -> set[str]:
        lines = generate_latest(metrics.registry).decode().splitlines()
        return {line.rpartition(" ")[0] for line in lines if not line.startswith("#")}

    metrics.event_committed("air.db.dbo.flights", "INSERT")
    metrics.committed(999_000)
    before = series()
    metrics.event_committed("air.db.dbo.flights", "INSERT")
    metrics.committed(999_500)
    assert series() == before
    assert not [name for name in before if "lsn" in name]


def test_the_figures_tell_what_was_published():
    metrics = Metrics(clock=lambda: 1000.0)
    metrics.committed(999_000)
    metrics.rows.labels(topic="air.db.dbo.flights").inc(7)

    page = generate_latest(metrics.registry).decode()

    assert 'tailrace_rows_total{topic="air.db.dbo.flights"} 7.0' in page
    assert "tailrace_last_commit_timestamp_seconds 1000.0" in page
    assert "tailrace_through_commit_timestamp_seconds 999.0" in page


def test_the_lag_is_the_time_since_the_last_closed_commit_and_grows_by_itself():
    now = 1000.0
    metrics = Metrics(clock=lambda: now)

    def lag() -> float:
        value = metrics.registry.get_sample_value("tailrace_lag_seconds")
        assert value is not None
        return value

    assert math.isnan(lag())
    metrics.committed(999_000)
    assert lag() == 1
    now = 8200.0
    assert lag() == 7201
    metrics.committed(None)
    assert lag() == 7201
    metrics.committed(8_300_000)
    assert lag() == 0, "a clock ahead of ours"


def test_figures_are_there_under_debezium_s_names_too():
    now = 1000.0
    metrics = Metrics(clock=lambda: now)
    metrics.show([])
    page = generate_latest(metrics.registry).decode()
    assert "tailrace_milliseconds_behind_source NaN" in page
    assert "tailrace_milliseconds_since_last_event NaN" in page
    assert "tailrace_snapshot_completed 0.0" in page

    metrics.up.set(1)
    metrics.committed(998_500)
    metrics.rows.labels(topic="p.d.dbo.a").inc(7)
    metrics.skipped.labels(topic="p.d.dbo.a").inc(2)
    metrics.transactions.inc(3)
    metrics.event_committed("p.d.dbo.a", "INSERT")
    now = 1002.0
    tables = [
        TableStatus("dbo.a", "p.d.dbo.a", "followed"),
        TableStatus(
            "dbo.b",
            "p.d.dbo.b",
            "snapshotting",
            snapshot_rows=40,
            snapshot_estimate=100,
            snapshot_left_s=6.0,
        ),
        TableStatus("dbo.c", "p.d.dbo.c", "pending", snapshot_paused=True),
        TableStatus("dbo.d", "p.d.dbo.d", "halted"),
        TableStatus("dbo.e", "p.d.dbo.e", "missing"),
    ]
    metrics.show(tables)
    page = generate_latest(metrics.registry).decode().splitlines()
    assert {
        "tailrace_milliseconds_behind_source 3500.0",
        "tailrace_milliseconds_since_last_event 2000.0",
        'tailrace_last_event{operation="INSERT",topic="p.d.dbo.a"} 1.0',
        "tailrace_total_number_of_events_seen 9.0",
        "tailrace_number_of_events_filtered 2.0",
        "tailrace_number_of_committed_transactions 3.0",
        "tailrace_connected 1.0",
        "tailrace_captured_tables 4.0",
        "tailrace_total_table_count 4.0",
        "tailrace_remaining_table_count 2.0",
        "tailrace_snapshot_running 1.0",
        "tailrace_snapshot_paused 1.0",
        "tailrace_snapshot_aborted 1.0",
        "tailrace_snapshot_completed 0.0",
        'tailrace_rows_scanned{table="dbo.b"} 40.0',
        'tailrace_snapshot_estimated_rows{topic="p.d.dbo.b"} 100.0',
        'tailrace_snapshot_left_seconds{topic="p.d.dbo.b"} 6.0',
    } <= set(page)

    part = TableStatus("dbo.f", "p.d.dbo.f", "rereading", snapshot_estimate=50, snapshot_left_s=3.0)
    metrics.show([part])
    page = generate_latest(metrics.registry).decode().splitlines()
    assert {
        "tailrace_remaining_table_count 1.0",
        'tailrace_snapshot_estimated_rows{topic="p.d.dbo.f"} 50.0',
        'tailrace_snapshot_left_seconds{topic="p.d.dbo.f"} 3.0',
    } <= set(page)

    metrics.show(tables[:1])
    page = generate_latest(metrics.registry).decode().splitlines()
    assert {"tailrace_snapshot_completed 1.0", "tailrace_snapshot_running 0.0"} <= set(page)
    assert not [line for line in page if line.startswith("tailrace_rows_scanned{")]
