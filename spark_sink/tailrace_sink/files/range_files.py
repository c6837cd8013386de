"""Files of a bulk range, decoded and written by columns in the executors' Python.

A bulk range is read once for all its tables. Each task reads its messages from the brokers, decodes
them and writes Parquet into the tables' folders. The driver compares the tasks' counts with the
ledger, then commits the files. Spark's source and decoder and Delta's writer do the same, several
times slower (ADR 0080, 0089). They remain for executors without these libraries and for stores that
only Hadoop opens. Options of Kafka that librdkafka lacks need them, and so does a table with
partitions, constraints or columns of somebody else.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

import structlog
from pyspark.sql import Row, SparkSession

from tailrace_schemas.records.progress import signed
from tailrace_sink.columns.avro_plan import NotByColumns
from tailrace_sink.columns.change_columns import ChangeDecoder
from tailrace_sink.columns.spec import Work
from tailrace_sink.columns.task_files import COUNTS, RESULT, numbers_of, write_task
from tailrace_sink.columns.topic_messages import shares_of, values_of, whole_shares_of
from tailrace_sink.columns.worker_process import spare_next_task
from tailrace_sink.files.counted_files import Append, CountedFiles
from tailrace_sink.files.parquet_files import FileForm, ParquetFile
from tailrace_sink.options.config import SinkConfig
from tailrace_sink.plan.topic_ranges import Counted, TopicRange
from tailrace_sink.ports.writes import Destination, NotAsCounted
from tailrace_sink.rows.column_targets import target_of, writers_of
from tailrace_sink.rows.writer_schema import WriterSchema
from tailrace_sink.spark.executor_brokers import ExecutorBrokers

if TYPE_CHECKING:
    import pyarrow as pa

_log = structlog.get_logger("tailrace.sink")


FormOf = Callable[[str], FileForm | None]
"""Returns how the files of the table at a path must look; None: its own writer must write them."""


class RangeFiles:
    """Writes the files of tables; thread-safe."""

    def __init__(self, config: SinkConfig) -> None:
        self._config = config
        self._brokers = ExecutorBrokers(config)

    def written(
        self,
        spark: SparkSession,
        writers: Sequence[WriterSchema],
        ranges: TopicRange,
        destinations: Sequence[Destination],
        form_of: FormOf,
        append: Append,
    ) -> dict[str, CountedFiles]:
        """Write the changes of a range into files of some tables.

        Args:
            spark: used by this thread only.
            writers: all schemas that the messages may have.
            append: appends the files later.

        Returns:
            Path of a table to its files; empty if Spark must decode this range.

        Raises:
            NotAsCounted: the messages are not what the ledger counts.
            PySparkException, Py4JError: a task failed, perhaps by a record.
        """
        work, forms = self._work(spark, writers, ranges, destinations, form_of)
        if work is None:
            return {}
        divided = whole_shares_of if any(d.last_only for d in destinations) else shares_of
        tasks = spark.sparkContext.defaultParallelism
        shares = divided(ranges.topic, ranges.partitions, tasks)
        brokers = self._brokers.reached(spark, shares[0][0])
        if brokers is None:
            return {}

        def task(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            for number in numbers_of(batches):
                yield from write_task(work, values_of(brokers, shares[number]))
            spare_next_task()

        numbers = spark.range(0, len(shares), numPartitions=len(shares))
        rows = numbers.mapInArrow(task, RESULT).where("results IS NOT NULL").collect()
        results = [of for row in rows for of in row["results"]]
        _require_counted(results, ranges)
        files = [
            CountedFiles(
                destination.table,
                form,
                _files(results, place, is_rest=False),
                target,
                work.s3,
                append,
                _files(results, place, is_rest=True),
                sum(of["lacking"] or 0 for of in results if of["target"] == place),
            )
            for place, (destination, form, target) in enumerate(
                zip(destinations, forms, work.targets, strict=True)
            )
        ]
        return {of.table.path: of for of in files}

    def _work(
        self,
        spark: SparkSession,
        writers: Sequence[WriterSchema],
        ranges: TopicRange,
        destinations: Sequence[Destination],
        form_of: FormOf,
    ) -> tuple[Work | None, Sequence[FileForm]]:
        """Describe the tasks; None, logged for a column, if a table or a column needs Spark."""
        nothing: tuple[None, Sequence[FileForm]] = (None, ())
        if not destinations:
            return nothing
        forms, targets = [], []
        for destination in destinations:
            table, form = destination.table, form_of(destination.table.path)
            if form is None or form.types != table.types or form.folder is None:
                return nothing
            target = target_of(
                table,
                writers,
                form.folder,
                form.physical,
                form.indexed,
                elements=form.elements,
                last_only=destination.last_only,
                keeps_deletes=destination.keeps_deletes,
            )
            forms.append(form)
            targets.append(target)
        store, in_s3 = self._config.store, {form.is_in_s3 for form in forms}
        if len(in_s3) > 1 or (True in in_s3 and store is None):
            return nothing
        work = Work(
            writers_of(writers),
            tuple(targets),
            s3=store.pyarrow() if True in in_s3 and store is not None else None,
            # Spark reads old dates of files without its name in the calendar that it once had.
            metadata={"org.apache.spark.version": spark.version},
        )
        try:
            ChangeDecoder(work)
        except NotByColumns as error:
            _log.info("decoded_by_spark", topic=ranges.topic, reason=str(error))
            return nothing
        return work, forms


def _files(results: Iterable[Row], target: int, *, is_rest: bool) -> tuple[ParquetFile, ...]:
    """Return the files of a target in the results of all tasks."""
    return tuple(
        ParquetFile(of["path"], of["bytes"], of["statistics"])
        for of in results
        if of["target"] == target and of["is_rest"] == is_rest
    )


def _require_counted(results: Iterable[Row], ranges: TopicRange) -> None:
    """Compare the counts of all tasks with the ledger.

    Raises:
        NotAsCounted: a task read other changes than the publisher counted.
    """
    counts = [of for of in results if of["target"] == COUNTS]
    there = Counted(sum(of["changes"] for of in counts), signed(sum(of["hashes"] for of in counts)))
    if there != ranges.ledger_total:
        raise NotAsCounted(f"{ranges.topic}: {there}, by the ledger {ranges.ledger_total}")
