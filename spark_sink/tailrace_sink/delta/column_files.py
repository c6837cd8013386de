"""Files of appended changes, decoded and written by columns in the executors' Python.

A bulk range is read once for all its tables. Each task reads its messages from the brokers, decodes
them and writes Parquet into the tables' folders. The driver compares the tasks' counts with the
ledger, then commits the files. Spark's source and decoder and Delta's writer do the same, several
times slower (ADR 0080, 0089). They remain for executors without these libraries and for stores that
only Hadoop opens. Options of Kafka that librdkafka lacks need them, and so does a table with
partitions, constraints, columns of somebody else or several sources.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import unquote, urlparse

import structlog
from py4j.protocol import Py4JError
from pyspark import cloudpickle
from pyspark.errors import PySparkException
from pyspark.sql import Row, SparkSession

from tailrace_schemas.records.progress import signed
from tailrace_sink import columns
from tailrace_sink.columns.avro_plan import NotByColumns
from tailrace_sink.columns.change_columns import ChangeDecoder
from tailrace_sink.columns.distinct_keys import has_distinct_keys
from tailrace_sink.columns.spec import Target, Work, Writer
from tailrace_sink.columns.task_files import COUNTS, RESULT, numbers_of, write_task
from tailrace_sink.columns.topic_messages import (
    Brokers,
    Piece,
    require_answer,
    shares_of,
    values_of,
)
from tailrace_sink.columns.worker_process import spare_next_task
from tailrace_sink.delta.append_files import FilesUnfit, append_files, form_of_files
from tailrace_sink.delta.append_once import Examine, NotAsCounted
from tailrace_sink.delta.fence import Fence
from tailrace_sink.delta.parquet_files import FileForm, ParquetFile
from tailrace_sink.options.config import SinkConfig
from tailrace_sink.options.librdkafka_options import NotInLibrdkafka, librdkafka_options
from tailrace_sink.options.s3_options import is_s3, s3_address
from tailrace_sink.plan.topic_ranges import Counted, TopicRange
from tailrace_sink.rows.column_targets import target_of
from tailrace_sink.rows.decode import WriterSchema
from tailrace_sink.tables.lake_table import LakeTable

if TYPE_CHECKING:
    import pyarrow as pa

_REASON_MAX: Final = 300
_EFFECT: Final = (
    "Spark reads and decodes snapshots and backlogs, which takes several times the time"
)
_FIX: Final = (
    "install Python with pyarrow, numpy and confluent-kafka on the executors, set PYSPARK_PYTHON,"
    " and give kafka.extra as docs/spark-cluster.md names it"
)

_log = structlog.get_logger("tailrace.sink")
cloudpickle.register_pickle_by_value(columns)  # type: ignore[no-untyped-call]


@dataclass(frozen=True, slots=True)
class WrittenFiles:
    """The files of one table's part of a batch, which were counted and are in no version yet."""

    location: str
    form: FileForm
    files: tuple[ParquetFile, ...]
    target: Target
    s3: Mapping[str, Any] | None = field(repr=False)

    def has_distinct(self, key: Sequence[str]) -> bool:
        """Whether all rows are known to have different keys; False also if they are too many."""
        names = [self.form.physical[name][0] for name in key]
        return has_distinct_keys(self.target.folder, [f.name for f in self.files], names, self.s3)

    def append(
        self,
        spark: SparkSession,
        application: str,
        batch: int,
        fence: Fence,
        examine: Examine | None,
    ) -> None:
        """Append the files once (:func:`append_files`).

        Raises:
            NotAsCounted: the table was altered meanwhile.
        """
        files = (self.form, self.files)
        try:
            append_files(spark, self.location, application, batch, files, fence, examine)
        except FilesUnfit as error:
            reason = f"{self.location} was altered while its files were written"
            raise NotAsCounted(reason) from error


class ColumnFiles:
    """Writes the files of tables; thread-safe."""

    def __init__(self, config: SinkConfig) -> None:
        self._config = config
        self._lock = threading.Lock()
        self._is_ready: bool | None = None

    def written(
        self,
        spark: SparkSession,
        writers: Sequence[WriterSchema],
        ranges: TopicRange,
        tables: Sequence[LakeTable],
    ) -> dict[str, WrittenFiles]:
        """Write all changes of a range into files of some tables.

        Args:
            spark: used by this thread only.
            writers: all schemas that the messages may have.

        Returns:
            Path of a table to its files; empty if Spark must decode this range.

        Raises:
            NotAsCounted: the messages are not what the ledger counts.
            PySparkException, Py4JError: a task failed, perhaps by a record.
        """
        work, forms = self._work(spark, writers, ranges, tables)
        if work is None:
            return {}
        tasks = spark.sparkContext.defaultParallelism
        shares = shares_of(ranges.topic, ranges.partitions, tasks)
        brokers = self._reached(spark, shares[0][0])
        if brokers is None:
            return {}

        def task(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            for number in numbers_of(batches):
                yield write_task(work, values_of(brokers, shares[number]))
            spare_next_task()

        numbers = spark.range(0, len(shares), numPartitions=len(shares))
        results = numbers.mapInArrow(task, RESULT).collect()
        _require_counted(results, ranges)
        return {
            table.path: WrittenFiles(
                f"{self._config.lake}/{table.path}",
                forms[table.path],
                tuple(
                    ParquetFile(of["path"], of["bytes"], of["statistics"])
                    for of in results
                    if of["target"] == place
                ),
                work.targets[place],
                work.s3,
            )
            for place, table in enumerate(tables)
        }

    def _work(
        self,
        spark: SparkSession,
        writers: Sequence[WriterSchema],
        ranges: TopicRange,
        tables: Sequence[LakeTable],
    ) -> tuple[Work | None, Mapping[str, FileForm]]:
        """Describe the tasks; None, logged for a column, if a table or a column needs Spark."""
        nothing: tuple[None, Mapping[str, FileForm]] = (None, {})
        folder = _folder_of(self._config.lake)
        if folder is None or not tables or any(table.is_shared for table in tables):
            return nothing
        forms: dict[str, FileForm] = {}
        targets = []
        for table in tables:
            form = form_of_files(spark, f"{self._config.lake}/{table.path}")
            types = {column.name: column.type for column in table.columns}
            types |= {name: type_ for name, (type_, _) in table.cdc_columns.items()}
            if form is None or form.types != types:
                return nothing
            forms[table.path] = form
            path = f"{folder}/{table.path}"
            targets.append(target_of(table, writers, path, form.physical, form.indexed))
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

    def _reached(self, spark: SparkSession, piece: Piece) -> Brokers | None:
        """Return how the executors' Python reaches the brokers; tried and logged once.

        None: it does not, or it lacks numpy, pyarrow or confluent-kafka.

        Raises:
            ConfigError: the file of a secret cannot be read.
        """
        with self._lock:
            if self._is_ready is False:
                return None
            try:
                brokers = self._brokers()
                if self._is_ready is None:
                    _require_answer(spark, brokers, piece)
            except (PySparkException, Py4JError, NotInLibrdkafka) as error:
                self._is_ready = False
                reason = " ".join(str(error).split())[-_REASON_MAX:]
                _log.warning("columns_unavailable", reason=reason, effect=_EFFECT, fix=_FIX)
                return None
            self._is_ready = True
            return brokers

    def _brokers(self) -> Brokers:
        """Return the connection, with the secrets that its files hold now.

        Raises:
            ConfigError: the file of a secret cannot be read.
            NotInLibrdkafka: an option of the Java client has no equal.
        """
        kafka = self._config.kafka
        options = librdkafka_options(kafka.further_options())
        options |= {"bootstrap.servers": kafka.bootstrap, "group.id": f"{self._config.prefix}bulk"}
        return Brokers(options, kafka.poll_timeout_s)


def _require_answer(spark: SparkSession, brokers: Brokers, piece: Piece) -> None:
    """Let a task query the brokers for a partition.

    Raises:
        PySparkException: executors lack a library, or the brokers did not answer them.
    """

    def ask(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for _ in numbers_of(batches):
            require_answer(brokers, piece)
        yield from ()

    spark.range(1).mapInArrow(ask, "id long").collect()


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
