"""The changes that running tasks have read of a batch, by Spark's metrics of its queries.

A batch of a large backlog takes from seconds to minutes, and comes into the tables as a whole.
Executors send the metrics of running tasks with each heartbeat, also from other machines. The
driver stores them for its user interface, even if that is off. So no connection, right or file is
needed for them. Spark's classes for it are not documented: if they fail, the count stays 0, and the
batch does not notice.

Rows count where they leave a read of Kafka, or the Python of a bulk range (``task_files``).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

import structlog
from py4j.protocol import Py4JError
from pyspark.sql import SparkSession

from tailrace_sink.columns.task_files import CHANGES_A_ROW

_DESCRIPTION: Final = "into the tables: "
"""Begins the description of the queries that count; those of the log have none."""
_READS: Final = {"MapInArrow": CHANGES_A_ROW, "Scan KafkaRelation": 1}
"""Beginnings of the names of nodes, with the changes that a row of theirs stands for."""
_ROWS: Final = "number of output rows"

_log = structlog.get_logger("tailrace.sink")


def describe_queries(spark: SparkSession, batch: int, table: str) -> None:
    """Describe the queries of this thread, also in Spark's user interface."""
    spark.sparkContext.setJobDescription(f"{_DESCRIPTION}{table}, batch {batch}")


class TaskRows:
    """Counts the changes read by queries that start from now on; used by one thread at a time."""

    def __init__(self, spark: SparkSession) -> None:
        self._spark = spark
        self._changes: dict[int, int] = {}
        self._reads: dict[int, dict[int, int]] = {}
        self._over: set[int] = set()
        self._is_available = True
        self._look()
        self._over |= self._reads.keys()
        self._changes.clear()

    def count(self) -> int:
        """Count the changes that tasks have read; never raises."""
        self._look()
        return sum(self._changes.values())

    def _look(self) -> None:
        if not self._is_available:
            return
        try:
            for query in self._queries():
                self._count(query)
        except (Py4JError, OSError, TypeError, ValueError) as error:
            self._is_available = False
            reason = " ".join(str(error).split())[:300]
            _log.info("batch_progress_unavailable", reason=reason)

    def _queries(self) -> Iterator[Any]:
        """The newest queries that count and were not over when they were last examined."""
        for query in _items(self._store.executionsList()):
            if query.executionId() not in self._over:
                if str(query.description()).startswith(_DESCRIPTION):
                    yield query
                else:
                    self._over.add(query.executionId())

    def _count(self, query: Any) -> None:
        number, is_over = query.executionId(), query.completionTime().isDefined()
        if number not in self._reads:
            self._reads[number] = self._reads_of(query)
        metrics = self._store.executionMetrics(number)
        changes = 0
        for metric, changes_a_row in self._reads[number].items():
            rows = metrics.get(metric)
            if rows.isDefined():
                changes += int(rows.get().replace(",", "")) * changes_a_row
        self._changes[number] = changes
        if is_over:
            self._over.add(number)

    def _reads_of(self, query: Any) -> dict[int, int]:
        """The metrics of the rows of a query's reads, with the changes that a row stands for."""
        plan = query.physicalPlanDescription()
        if not any(name in plan for name in _READS):
            return {}
        return {
            metric.accumulatorId(): changes_a_row
            for node in _items(self._store.planGraph(query.executionId()).allNodes())
            for name, changes_a_row in _READS.items()
            if node.name().startswith(name)
            for metric in _items(node.metrics())
            if metric.name() == _ROWS
        }

    @property
    def _store(self) -> Any:
        session: Any = self._spark._jsparkSession  # noqa: SLF001 - no public way leads there
        return session.sharedState().statusStore()


def _items(listed: Any) -> Iterator[Any]:
    """Items of a Scala sequence."""
    return (listed.apply(place) for place in range(listed.size()))
