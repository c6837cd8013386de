"""The sink of one prefix into one lake: changes are appended to the log, then applied to tables.

It does not depend on Spark's streaming. It is given progress records, and appends every cut that
they close, starting from the state in the log. So a repeated micro-batch, a lost checkpoint, and
records that arrive early do no harm.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable

from pyspark.sql import SparkSession

from tailrace_sink.fold.fold import Fold
from tailrace_sink.intake.log_writer import LogWriter
from tailrace_sink.kafka.group_offsets import GroupOffsets
from tailrace_sink.log.formats import format_of, settle_format
from tailrace_sink.log.log_table import LogTable
from tailrace_sink.log.schema_store import SchemaStore
from tailrace_sink.log.sink_parts import SinkParts
from tailrace_sink.options.config import SinkConfig
from tailrace_sink.plan.progress_record import ProgressRecord, SchemaById
from tailrace_sink.plan.sink_state import SinkState
from tailrace_sink.spark.s3_log_store import prove_store
from tailrace_sink.spark.session import own_session, small_batch_session
from tailrace_sink.watch.hooks import Hook, no_hook
from tailrace_sink.watch.metrics import SinkMetrics
from tailrace_sink.watch.traces import SinkTraces


class Sink:
    """The sink of one prefix into one lake.

    Args:
        schema_by_id: looks up a writer schema in the registry.
        now_s: clock, seconds since 1970.

    Raises:
        ConfigError: tracing is configured and cannot start.

    Attributes:
        log: writes the log; used by one thread at a time.
        fold: writes the tables; used by one thread at a time.
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
        spark = own_session(spark)
        self._spark = spark
        self._is_store_proven = False
        self.metrics = metrics or SinkMetrics()
        parts = SinkParts(
            spark,
            config,
            format_of(spark, config),
            LogTable(small_batch_session(spark), config.log_path, config.prefix),
            SchemaStore(spark, config.log_path, config.schemas_path, schema_by_id),
            self.metrics,
            SinkTraces(config),
            hook or no_hook,
            now_s,
        )
        self.schemas = parts.schemas
        self._tables = parts.tables
        self._traces = parts.traces
        self._offsets = GroupOffsets(spark, config.kafka, config.topics.progress)
        self.log = LogWriter(parts)
        self.fold = Fold(parts)
        self.log.on_logged = self.fold.feed.offer
        self.log.on_late = self.fold.begin_late

    def open(self) -> SinkState:
        """Take the lake over and read the states; call it again after a failure.

        Returns:
            The state of the tables.

        Raises:
            LakeTaken: another sink has started since.
            StoreUnsafe: two sinks could commit one version of a table there.
            SinkError: the lake cannot be read.
        """
        self.open_log()
        return self.open_tables()

    def open_log(self) -> None:
        """Open only the log; at the first call, prove that the lake's store can be shared."""
        if not self._is_store_proven:
            prove_store(self._spark, self.config.lake)
            self._tables.prove()
            settle_format(self._spark, self.config)
            self._is_store_proven = True
        self.log.open(self.fold.state_of_tables)

    def open_tables(self) -> SinkState:
        """Open the tables, after the log."""
        return self.fold.open(self.log.epoch)

    def warm_up(self) -> None:
        """Do the first writes of a process, which take long.

        Raises:
            SinkError: the lake cannot be written.
        """
        self._tables.warm_up(self._spark)

    def close(self) -> None:
        """End the workers and send the waiting spans."""
        self.fold.close()
        self._offsets.close()
        self._traces.close()

    def continue_after_loss(self) -> None:
        """Continue after lost progress records, if the progress topic lacks those that come next.

        Raises:
            SinkError: Kafka does not answer, or the lake cannot be written.
            RegistryError: a schema could not be looked up.
        """
        self.log.continue_after_loss()
        self._commit_offsets()

    @property
    def next_offset(self) -> int | None:
        """Offset from which to read the progress topic; None: from its start."""
        return self.log.state.next_offset

    def process(self, records: Iterable[ProgressRecord], stop: threading.Event) -> int:
        """Append every cut that progress records close to the log.

        Returns:
            Number of cuts appended.

        Raises:
            SinkError: a cut failed; those before it are in the log.
            RegistryError: the registry does not answer.
        """
        appended = self.log.process(records, stop.is_set)
        self._commit_offsets()
        return appended

    def _commit_offsets(self) -> None:
        """Commit how far the lake is; only after it is, as a lost commit merely delays."""
        self._offsets.commit(self.log.complete(self.fold.state).next_offset)

    def fold_tables(self, stop: threading.Event, batches_max: int | None = None) -> int:
        """Apply what the log has to the tables.

        Args:
            batches_max: returns after so many; None: at the end of the log.

        Returns:
            Number of commit rows written.

        Raises:
            SinkError: a batch failed; the batches before it are committed.
            RegistryError: the registry does not answer.
        """
        return self.fold.catch_up(stop, batches_max)
