"""The pause of a publisher: once, and not for ever."""

from __future__ import annotations

import threading

from tailrace_publisher.daemon.adapters.production import production_ports
from tailrace_publisher.daemon.orders.pause import Pause
from tailrace_publisher.daemon.tables.publisher_state import PublisherState
from tailrace_publisher.metrics.publisher_metrics import Metrics
from tailrace_publisher.options.publisher_config import PublisherConfig
from tailrace_publisher.runtime import Runtime
from tailrace_publisher.source.log.identity import DatabaseIdentity
from tailrace_schemas.position.lsn import Lsn
from tests.least_options import LEAST

HOUR_MS = 3_600_000


def pause() -> Pause:
    config = PublisherConfig.load({**LEAST, "pause_max_h": 2})
    runtime = Runtime(config, production_ports(), Metrics(), threading.Event(), lambda _: None)
    state = PublisherState.first_start("server", "db", DatabaseIdentity(None, None), Lsn.ZERO)
    return Pause(runtime, state)


def test_it_is_told_that_it_is_so_already():
    made = pause()
    assert made.set(is_paused=False) == "the publisher is not paused"
    assert made.set(is_paused=True) is None
    assert made.is_on
    since_ms = made.state.paused_since_ms
    assert made.set(is_paused=True) == "the publisher is paused already"
    assert made.state.paused_since_ms == since_ms
    assert made.set(is_paused=False) is None
    assert not made.is_on


def test_it_ends_by_itself_before_change_rows_are_gone():
    made = pause()
    made.set(is_paused=True)
    assert made.state.paused_since_ms is not None
    made.state.paused_since_ms -= HOUR_MS
    made.end_if_too_long()
    assert made.is_on
    made.state.paused_since_ms -= HOUR_MS
    made.end_if_too_long()
    assert not made.is_on
