"""A publisher that hangs is neither healthy nor ready."""

from __future__ import annotations

import threading
from dataclasses import replace

import httpx
import structlog

from tailrace_publisher.daemon.adapters.production import SystemClock, production_ports
from tailrace_publisher.daemon.process.endpoint import endpoint
from tailrace_publisher.daemon.status.status_board import PublisherBoard
from tailrace_publisher.daemon.tables.stopped import StoppedTables
from tailrace_publisher.metrics.publisher_metrics import Metrics
from tailrace_publisher.options.publisher_config import PublisherConfig
from tailrace_publisher.runtime import Runtime
from tests.least_options import LEAST


class Clock(SystemClock):
    """Stands still, but for the time that a test lets pass."""

    passed_s = 0.0

    def monotonic(self) -> float:
        return self.passed_s


def runtime_of(clock: Clock) -> Runtime:
    config = PublisherConfig.load({**LEAST, "metrics_port": 0})
    ports = replace(production_ports(), clock=clock)
    return Runtime(config, ports, Metrics(), threading.Event(), lambda _: None)


def board_of(runtime: Runtime) -> PublisherBoard:
    return PublisherBoard(runtime, StoppedTables(runtime.config.snapshot, runtime.metrics))


def test_the_endpoint_tells_it_until_the_next_step():
    clock = Clock()
    runtime = runtime_of(clock)
    board = board_of(runtime)
    board.enter("running")
    with (
        structlog.testing.capture_logs() as told,
        endpoint(runtime, board, runtime.metrics.registry),
        httpx.Client(base_url=told[0]["url"], trust_env=False) as client,
    ):
        paths = ("/health", "/ready")
        assert [client.get(path).status_code for path in paths] == [200, 200]
        clock.passed_s = board.still_max_s + 1
        for path in paths:
            answer = client.get(path)
            assert answer.status_code == 503
            assert answer.text.startswith(f"no step for {clock.passed_s:.0f} s")
        board.turned()
        assert [client.get(path).status_code for path in paths] == [200, 200]
