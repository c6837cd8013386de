"""What the publisher counts."""

import math

from prometheus_client import generate_latest

from tailrace_publisher.metrics import Metrics
from tailrace_schemas.lsn import Lsn


def test_the_figures_tell_the_published_lsn():
    metrics = Metrics(clock=lambda: 1000.0)
    metrics.committed(Lsn(1, 2, 3), 999_000)
    metrics.rows.labels(topic="air.db.dbo.flights").inc(7)

    page = generate_latest(metrics.registry).decode()

    assert 'tailrace_published_lsn_info{lsn="00000001:00000002:0003"} 1.0' in page
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
    metrics.committed(Lsn(1, 2, 3), 999_000)
    assert lag() == 1
    now = 8200.0
    assert lag() == 7201
    metrics.committed(Lsn(1, 2, 4), None)
    assert lag() == 7201
    metrics.committed(Lsn(1, 2, 5), 8_300_000)
    assert lag() == 0, "a clock ahead of ours"
