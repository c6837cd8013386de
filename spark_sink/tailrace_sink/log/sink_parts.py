"""Parts that the whole sink shares."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

from pyspark.sql import SparkSession

from tailrace_sink.log.log_table import LogTable
from tailrace_sink.log.schema_store import SchemaStore
from tailrace_sink.options.config import SinkConfig
from tailrace_sink.ports.table_format import TableFormat
from tailrace_sink.watch.hooks import Hook, no_hook
from tailrace_sink.watch.metrics import SinkMetrics
from tailrace_sink.watch.traces import SinkTraces


@dataclass(frozen=True, slots=True)
class SinkParts:
    """Parts that the log's thread and the fold share.

    Attributes:
        tables: the format of the lake's tables.
        now_s: clock, seconds since 1970.
    """

    spark: SparkSession
    config: SinkConfig
    tables: TableFormat
    log: LogTable
    schemas: SchemaStore
    metrics: SinkMetrics
    traces: SinkTraces
    hook: Hook = no_hook
    now_s: Callable[[], float] = time.time
