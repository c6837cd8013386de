"""The sink of one prefix into one lake: the log takes every change first, the tables follow.

Knows nothing of Spark's streaming: it is given progress records, and appends to the log whatever
they close, starting from the state that the log tells. So a micro-batch that is delivered twice, a
lost checkpoint, or records that came before the rest of their cut all end the same way.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable

from pyspark.sql import SparkSession

from tailrace_sink.fold.fold import Fold
from tailrace_sink.intake.log_writer import LogWriter
from tailrace_sink.log.log_table import LogTable
from tailrace_sink.log.schema_store import SchemaStore
from tailrace_sink.log.sink_parts import SinkParts
from tailrace_sink.options.config import SinkConfig
from tailrace_sink.plan.progress_record import ProgressRecord, SchemaById
from tailrace_sink.plan.sink_state import SinkState
from tailrace_sink.spark.session import small_batch_session
from tailrace_sink.watch.hooks import Hook, no_hook
from tailrace_sink.watch.metrics import SinkMetrics
from tailrace_sink.watch.traces import SinkTraces


class Sink:
    """One prefix into one lake.

    Args:
        spark: the application's session.
        config: the options.
        schema_by_id: the registry's look-up.
        metrics: Prometheus figures.
        hook: called with each step (``hooks``).
        now_s: clock, seconds since the epoch.

    Raises:
        ConfigError: traces are wanted and cannot be made.

    Attributes:
        log: appends to the log; one thread at a time.
        fold: brings the tables to the log; one thread at a time.
    """

    def __init__(
        self,
        spark: SparkSession,
        config: SinkConfig,
        schema_by_id: SchemaById,
        *,
        metrics: SinkMetrics | None = None,
        hook: Hook | None = None,
        now_s: Callable[[], float] = time.time,
    ) -> None:
        self.config = config
        self.metrics = metrics or SinkMetrics()
        parts = SinkParts(
            spark,
            config,
            LogTable(small_batch_session(spark), config.log_path, config.prefix),
            SchemaStore(spark, config.log_path, config.schemas_path, schema_by_id),
            self.metrics,
            SinkTraces(config),
            hook or no_hook,
            now_s,
        )
        self.schemas = parts.schemas
        self._traces = parts.traces
        self.log = LogWriter(parts)
        self.fold = Fold(parts)
        self.log.on_logged = self.fold.feed.offer
        self.log.on_late = self.fold.begin_late

    def open(self) -> SinkState:
        """Take the lake over, and read where log and tables stand; call again after a failure.

        Returns:
            The state of the tables.

        Raises:
            LakeTaken: another sink has started since.
            SinkError: the lake cannot be read.
        """
        self.open_log()
        return self.open_tables()

    def open_log(self) -> None:
        """The log's part of ``open``."""
        self.log.open(self.fold.state_of_tables)

    def open_tables(self) -> SinkState:
        """The tables' part, after the log's."""
        return self.fold.open(self.log.epoch)

    def close(self) -> None:
        """End the workers, and send the spans that wait."""
        self.fold.close()
        self._traces.close()

    def continue_after_loss(self) -> None:
        """Continue after what the progress topic no longer has, if it lacks what comes next.

        Raises:
            SinkError: Kafka does not answer, or the lake cannot be written.
            RegistryError: a schema could not be looked up.
        """
        self.log.continue_after_loss()

    def next_offsets(self) -> dict[int, int]:
        """Where to read the progress topic from, by partition; empty means from its beginning."""
        return self.log.next_offsets()

    def process(self, records: Iterable[ProgressRecord], stop: threading.Event) -> int:
        """Take progress records and append every cut that they close to the log.

        Returns:
            How many cuts were appended.

        Raises:
            SinkError: a cut failed; the log stands at the one before.
            RegistryError: the registry does not answer.
        """
        return self.log.process(records, stop.is_set)

    def fold_tables(self, stop: threading.Event, batches_max: int | None = None) -> int:
        """Bring the tables to the log.

        Args:
            stop: looked at between batches.
            batches_max: after how many to come back; None: when there is nothing more.

        Returns:
            How many commit rows were written.

        Raises:
            SinkError: a batch failed; the tables stand at the last commit row.
            RegistryError: the registry does not answer.
        """
        return self.fold.catch_up(stop.is_set, batches_max)
