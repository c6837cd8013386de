"""How the executors' Python reaches the brokers, if it can."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Final

import structlog
from py4j.protocol import Py4JError
from pyspark import cloudpickle
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from tailrace_sink import columns
from tailrace_sink.columns.task_files import numbers_of
from tailrace_sink.columns.topic_messages import Brokers, Piece, require_answer
from tailrace_sink.options.config import SinkConfig
from tailrace_sink.options.librdkafka_options import NotInLibrdkafka, librdkafka_options

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


class ExecutorBrokers:
    """The brokers, as tasks reach them; thread-safe."""

    def __init__(self, config: SinkConfig) -> None:
        self._config = config
        self._lock = threading.Lock()
        self._is_ready: bool | None = None

    def reached(self, spark: SparkSession, piece: Piece) -> Brokers | None:
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
