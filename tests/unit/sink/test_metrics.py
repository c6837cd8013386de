"""What the sink's gauges tell while it stands still."""

from __future__ import annotations

import time

from tailrace_sink.watch.metrics import SinkMetrics


def test_the_lags_grow_though_nothing_comes():
    metrics = SinkMetrics()
    now_ms = time.time_ns() // 1_000_000
    metrics.folded_through(now_ms - 5_000)
    metrics.logged_through(now_ms - 2_000)

    def lags() -> tuple[float, float]:
        found = [
            metrics.registry.get_sample_value(name)
            for name in ("tailrace_sink_lag_seconds", "tailrace_sink_log_lag_seconds")
        ]
        assert found[0] is not None
        assert found[1] is not None
        return found[0], found[1]

    first, second = lags(), lags()
    assert first[0] >= 5
    assert first[1] >= 2
    assert second > first


def test_what_was_carried_and_what_waits_is_told_by_stage():
    metrics = SinkMetrics()
    metrics.logged(7, 0.1, 0)
    metrics.waiting.labels(stage="tables").set(3)
    assert (metrics.carried("log"), metrics.carried("tables")) == ((7, 0), (0, 3))
