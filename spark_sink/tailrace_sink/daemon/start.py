"""The sink's process: it starts Spark, and loads the rest of the sink meanwhile.

A JVM takes seconds until it answers. Python needs about as long for the modules of the sink, so
this module imports only what starts the JVM (ADR 0081).
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING

import structlog

from tailrace_sink.options.config import SinkConfig
from tailrace_sink.spark.session import build_session

if TYPE_CHECKING:
    from tailrace_sink.watch.hooks import Hook
    from tailrace_sink.watch.metrics import SinkMetrics

_log = structlog.get_logger("tailrace.sink")


def run(
    config: SinkConfig,
    jars: Iterable[str | Path],
    stop: threading.Event,
    *,
    once: bool = False,
    on_ready: Callable[[], None] | None = None,
    hook: Hook | None = None,
    metrics: SinkMetrics | None = None,
) -> None:
    """Run the sink until ``stop`` is set.

    Args:
        jars: files for Spark: the Kafka connector, spark-avro, Delta and their dependencies.
        stop: ends the sink between two batches; the sink sets it when it ends by an error.
        once: whether to end at the present end of the progress topic.
        on_ready: called once, after the lake was opened.

    Raises:
        SinkError: not retryable, or still there after ``apply_attempts``.
        RegistryError: the registry refuses a schema.
    """
    begun = time.monotonic()
    with ThreadPoolExecutor(1, "start of Spark") as pool:
        starting = pool.submit(build_session, config, jars)
        from tailrace_sink.daemon.application import serve

        spark = starting.result()
    _log.info("spark_started", seconds=round(time.monotonic() - begun, 1))
    try:
        serve(spark, config, stop, once=once, on_ready=on_ready, hook=hook, metrics=metrics)
    finally:
        spark.stop()
