"""The Structured Streaming query over the progress topic.

Its micro-batches only signal news. Appends start from the log's own state, so Spark's checkpoint
decides nothing. At the start everything between that state and the topic's end is read in slices
(``progress_topic``). Then the query delivers what follows.

The query starts with a new checkpoint. Otherwise Spark would repeat a micro-batch that was killed,
and Kafka's source fails on one that it has not planned itself (Spark 4.1.1,
``KafkaMicroBatchStream.metrics``).
"""

from __future__ import annotations

import threading
from typing import Final

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from tailrace_sink.daemon.sink import Sink
from tailrace_sink.delta.file_log import delete_folder
from tailrace_sink.kafka.offset_reads import kafka_options, offsets_json
from tailrace_sink.kafka.progress_topic import PARTITION, ProgressTopic, of_progress
from tailrace_sink.options.config import SinkConfig
from tailrace_sink.plan.progress_record import SchemaById
from tailrace_sink.spark.jvm_errors import translated
from tailrace_sink.spark.session import small_batch_session
from tailrace_sink.watch.hang_detector import Part, Steps

_POLL_S = 0.2
_MICRO_BATCH_OFFSETS: Final = 2_000
"""Bounds a micro-batch so that it fits in the driver, also after a long append."""
_MANY: Final = _MICRO_BATCH_OFFSETS // 4
"""Records of a micro-batch from which more may follow: transaction markers take offsets, too."""
_PROGRESS_PARTS = ("offsets", "commits", "sources")
"""Folders of a checkpoint with the progress of a query; no other folder is deleted."""


class ProgressStream:
    """The stream of progress records into a sink, until it is stopped."""

    def __init__(
        self,
        spark: SparkSession,
        config: SinkConfig,
        schema_by_id: SchemaById,
        sink: Sink,
        steps: Steps | None = None,
    ) -> None:
        self._spark = small_batch_session(spark)
        self._config = config
        self._topic = ProgressTopic(self._spark, config, schema_by_id)
        self._sink = sink
        self._steps = steps or Steps(config.hang_s)
        self._busy = threading.Lock()
        self._is_closing = False
        self._failure: BaseException | None = None

    def catch_up(self, stop: threading.Event) -> int:
        """Append everything from the log's state to the present end of the progress topic.

        Returns:
            Number of cuts appended.

        Raises:
            SinkError: Kafka cannot be read, or a cut failed.
            RegistryError: a schema could not be looked up.
        """
        with self._steps.working(Part.LOG):
            return self._catch_up(stop)

    def _catch_up(self, stop: threading.Event) -> int:
        self._sink.continue_after_loss()
        return self._read_on(stop)

    def _read_on(self, stop: threading.Event) -> int:
        """Read and append slice by slice up to the present end."""
        cuts = 0
        for records in self._topic.after(self._sink.next_offset):
            cuts += self._sink.process(records, stop)
            if stop.is_set():
                break
        return cuts

    def run(self, stop: threading.Event) -> None:
        """Run the query until ``stop`` is set and the batch in progress has ended.

        Raises:
            SinkError: the query or a batch failed.
            RegistryError: a schema could not be looked up.
        """
        self._failure = None
        self._is_closing = False
        try:
            query = self._start(stop)
        except (PySparkException, Py4JError) as error:
            raise translated(f"stream of {self._config.topics.progress}", error) from error
        self._steps.stream_group = str(query.runId)  # Spark's job group of a query
        try:
            with self._steps.working(Part.STREAM):
                while not stop.is_set() and query.isActive:
                    self._steps.stepped(Part.STREAM)
                    stop.wait(_POLL_S)
            failure = query.exception()
        finally:
            # A query that is stopped inside a write ends with a StackOverflowError that hides the
            # cause. So wait for the batch in progress and start no other. Release the lock before
            # Spark stops, as Spark waits for a micro-batch that has just started.
            with self._busy:
                self._is_closing = True
            query.stop()
        if self._failure is not None:
            raise self._failure
        if failure is not None:
            raise of_progress(f"stream of {self._config.topics.progress}", failure)

    def _start(self, stop: threading.Event) -> StreamingQuery:
        def on_micro_batch(frame: DataFrame, _batch_id: int) -> None:
            with self._busy:
                if self._is_closing or stop.is_set() or self._failure is not None:
                    return
                try:
                    with self._steps.working(Part.LOG):
                        rows = _collected(frame)
                        self._sink.process(self._topic.decoded(rows), stop)
                        if len(rows) >= _MANY:
                            # The query would read the rest one interval after the other.
                            self._read_on(stop)
                except Exception as error:  # noqa: BLE001 - re-raised by run(), see below
                    # Through the JVM the error would return as a long Java text. Store it here, and
                    # end the query with a short one.
                    self._failure = error
            if self._failure is not None:
                raise RuntimeError("the batch failed") from None

        checkpoint = self._config.progress_checkpoint
        for part in _PROGRESS_PARTS:
            delete_folder(self._spark, self._config.log_path, f"{checkpoint}/{part}")
        stream = (
            self._spark.readStream.format("kafka")
            .options(**kafka_options(self._config.kafka))
            .option("subscribe", self._topic.name)
            .option("startingOffsets", self._starting_offsets())
            .option("maxOffsetsPerTrigger", _MICRO_BATCH_OFFSETS)
            .load()
            .select("partition", "offset", "value")
        )
        writer = stream.writeStream.foreachBatch(on_micro_batch).option(
            "checkpointLocation", checkpoint
        )
        interval_ms = round(self._config.trigger_interval_s * 1000)
        if interval_ms:
            writer = writer.trigger(processingTime=f"{interval_ms} milliseconds")
        return writer.start()

    def _starting_offsets(self) -> str:
        """Offset by the log's state."""
        known = self._sink.next_offset
        return "earliest" if known is None else offsets_json({self._topic.name: {PARTITION: known}})


def _collected(frame: DataFrame) -> list[Row]:
    try:
        return frame.collect()
    except (PySparkException, Py4JError) as error:
        raise of_progress("reading a micro-batch of progress records", error) from error
