"""Files of a bulk range, decoded and written by columns in the executors' Python.

A bulk range is read once for all its tables. Each task reads its messages from the brokers, decodes
them and writes Parquet into the tables' folders. The driver compares the tasks' counts with the
ledger, then commits the files. Spark's source and decoder and Delta's writer do the same, several
times slower (ADR 0080, 0089). They remain for executors without these libraries and for stores that
only Hadoop opens. Options of Kafka that librdkafka lacks need them, and so does a table with
partitions, constraints, columns of somebody else or several sources.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote, urlparse

import structlog
from pyspark.sql import DataFrame, Row, SparkSession

from tailrace_schemas.records.progress import signed
from tailrace_sink.columns.avro_plan import NotByColumns
from tailrace_sink.columns.change_columns import ChangeDecoder
from tailrace_sink.columns.distinct_keys import are_distinct, keys_in
from tailrace_sink.columns.spec import Target, Work, Writer
from tailrace_sink.columns.task_files import (
    COUNTS,
    RESULT,
    delete_files,
    file_system,
    numbers_of,
    write_task,
)
from tailrace_sink.columns.topic_messages import shares_of, values_of, whole_shares_of
from tailrace_sink.columns.worker_process import spare_next_task
from tailrace_sink.delta.fence import Fence
from tailrace_sink.delta.files.append_files import FilesUnfit, append_files, form_of_files
from tailrace_sink.delta.files.parquet_files import FileForm, ParquetFile
from tailrace_sink.delta.transaction import DeltaTransaction
from tailrace_sink.options.config import SinkConfig
from tailrace_sink.options.s3_options import is_s3, s3_address
from tailrace_sink.plan.topic_ranges import Counted, TopicRange
from tailrace_sink.ports.table_format import Destination, Examine, NotAsCounted, Once
from tailrace_sink.rows.column_targets import target_of
from tailrace_sink.rows.file_changes import changes_in_files
from tailrace_sink.rows.writer_schema import WriterSchema
from tailrace_sink.spark.executor_brokers import ExecutorBrokers
from tailrace_sink.tables.lake_table import LakeTable

if TYPE_CHECKING:
    import pyarrow as pa

_log = structlog.get_logger("tailrace.sink")


@dataclass(slots=True)
class DeltaFiles:
    """The files of one table's part of a batch, which were counted and are in no version yet.

    Attributes:
        files: with rows of the table.
        rest: of reduced changes, files with those that are no rows (``LastChanges.parted``).
        lacking: how many changes of ``rest`` lack large values.
        is_offered: whether a commit with ``files`` was tried.
    """

    location: str
    form: FileForm
    files: tuple[ParquetFile, ...]
    target: Target
    s3: Mapping[str, Any] | None = field(repr=False)
    fence: Fence = field(repr=False)
    rest: tuple[ParquetFile, ...] = ()
    lacking: int = 0
    is_offered: bool = False

    @property
    def is_reduced(self) -> bool:
        """Whether each task wrote the last change of each key only."""
        return bool(self.target.key)

    def keys(self, key: Sequence[str]) -> pa.Table | None:
        """Read the keys of all rows and of the rest; None if there are none or too many."""
        physical = [self.form.physical[name][0] for name in key]
        names = [file.name for file in (*self.files, *self.rest)]
        found = keys_in(self.target.folder, names, physical, self.s3)
        return None if found is None else found.rename_columns(list(key))

    def has_distinct(self, key: Sequence[str]) -> bool:
        """Whether all rows are known to have different keys; False also if they are too many."""
        if not self.files:
            return True
        keys = self.keys(key)
        return keys is not None and are_distinct(keys)

    def changes(self, spark: SparkSession, table: LakeTable) -> DataFrame:
        """Read the changes (:func:`changes_in_files`)."""
        physical = {name: of for name, (of, _) in self.form.physical.items()}
        files, rest = (
            [f"{self.location}/{file.name}" for file in part] for part in (self.files, self.rest)
        )
        return changes_in_files(spark, table, physical, files, rest)

    def offer(self, transaction: DeltaTransaction) -> bool:
        """Add the files to a transaction; False if the table now needs others."""
        if transaction.file_form != self.form:
            return False
        self.is_offered = True
        transaction.add_files(self.files)
        return True

    def append(self, spark: SparkSession, once: Once, examine: Examine | None) -> None:
        """Append the files once (:func:`append_files`).

        Raises:
            NotAsCounted: the table was altered meanwhile.
        """
        self.is_offered = True
        files = (self.form, self.files)
        try:
            append_files(spark, self.location, once, files, self.fence, examine)
        except FilesUnfit as error:
            reason = f"{self.location} was altered while its files were written"
            raise NotAsCounted(reason) from error

    def discard(self) -> None:
        """Delete the files that no version can have."""
        left = self.rest if self.is_offered else (*self.files, *self.rest)
        names = [file.name for file in left]
        delete_files(file_system(self.s3), self.target.folder, names)


class ColumnFiles:
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
        fence: Fence,
    ) -> dict[str, DeltaFiles]:
        """Write the changes of a range into files of some tables.

        Args:
            spark: used by this thread only.
            writers: all schemas that the messages may have.

        Returns:
            Path of a table to its files; empty if Spark must decode this range.

        Raises:
            NotAsCounted: the messages are not what the ledger counts.
            PySparkException, Py4JError: a task failed, perhaps by a record.
        """
        work, forms = self._work(spark, writers, ranges, destinations)
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
        paths = [destination.table.path for destination in destinations]
        return {
            path: DeltaFiles(
                f"{self._config.lake}/{path}",
                forms[path],
                _files(results, place, is_rest=False),
                work.targets[place],
                work.s3,
                fence,
                _files(results, place, is_rest=True),
                sum(of["lacking"] or 0 for of in results if of["target"] == place),
            )
            for place, path in enumerate(paths)
        }

    def _work(
        self,
        spark: SparkSession,
        writers: Sequence[WriterSchema],
        ranges: TopicRange,
        destinations: Sequence[Destination],
    ) -> tuple[Work | None, Mapping[str, FileForm]]:
        """Describe the tasks; None, logged for a column, if a table or a column needs Spark."""
        nothing: tuple[None, Mapping[str, FileForm]] = (None, {})
        folder = _folder_of(self._config.lake)
        if folder is None or not destinations or any(d.table.is_shared for d in destinations):
            return nothing
        forms: dict[str, FileForm] = {}
        targets = []
        for destination in destinations:
            table = destination.table
            form = form_of_files(spark, f"{self._config.lake}/{table.path}")
            types = {column.name: column.type for column in table.columns}
            types |= {name: type_ for name, (type_, _) in table.cdc_columns.items()}
            if form is None or form.types != types:
                return nothing
            forms[table.path] = form
            path = f"{folder}/{table.path}"
            target = target_of(
                table,
                writers,
                path,
                form.physical,
                form.indexed,
                last_only=destination.last_only,
                keeps_deletes=destination.keeps_deletes,
            )
            targets.append(target)
        store = self._config.store
        work = Work(
            tuple(Writer(writer.schema_id, writer.avro) for writer in writers),
            tuple(targets),
            ranges.after_lsn,
            ranges.up_to_lsn,
            None if store is None else store.pyarrow(),
            # Spark reads old dates of files without its name in the calendar that it once had.
            {"org.apache.spark.version": spark.version},
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


def _folder_of(lake: str) -> str | None:
    """Return the lake's folder as pyarrow names it; None for a store that only Hadoop opens."""
    if is_s3(lake):
        return s3_address(lake).removeprefix("s3://").rstrip("/")
    parts = urlparse(lake)
    if parts.scheme == "file":
        return unquote(parts.path).rstrip("/")
    return None if parts.scheme else lake.rstrip("/")
