"""Counting a table's changes while they are written, before the commit.

A separate pass would read and decode every event again (ADR 0048). The counts are those of the
whole topic. If they differ from the ledger, ``table_fold`` counts again by partition and record.
"""

from __future__ import annotations

from typing import Any, Final

from py4j.protocol import Py4JJavaError
from pyspark.sql import DataFrame, Observation
from pyspark.sql import functions as F  # noqa: N812 - PySpark's own convention

from tailrace_schemas.records.progress import signed
from tailrace_sink.fold.table_batch import TableBatch
from tailrace_sink.plan.topic_ranges import Counted, TopicRange
from tailrace_sink.ports.writes import Check, NotAsCounted
from tailrace_sink.spark.jvm_names import jvm_of
from tailrace_sink.tables.lake_table import POSITION

_WAIT: Final = "60 s"
"""Time to wait for observed metrics. Spark delivers them after the action, by a queue of events
that may drop some."""


def is_enough(source: TableBatch) -> bool:
    """Whether a count in passing can be compared with the ledger.

    It cannot if a part of the topic is not written: events of other tables, or those before a whole
    table.
    """
    ranges = source.topic_range
    return (
        bool(source.writers)
        and not source.other_writers
        and not source.missing
        and (ranges.whole_from is None or ranges.is_only_whole)
        and ranges.ledger_total.count == ranges.count
    )


def counted_in_passing(changes: DataFrame, ranges: TopicRange) -> tuple[DataFrame, Check]:
    """Count changes when they are read for the first time.

    Args:
        changes: all changes of the ranges, with their positions.

    Returns:
        The same changes, and the check that compares their counts with the ledger.
    """
    observation = Observation()
    number, hashes = F.count(F.lit(1)), F.sum(F.crc32(F.col(POSITION)))
    counted = changes.observe(
        observation,
        F.coalesce(number, F.lit(0)).alias("changes"),
        F.coalesce(hashes, F.lit(0)).alias("hashes"),
    )

    def check() -> None:
        _wait_for(changes, observation)
        found = observation.get
        there = Counted(found["changes"], signed(found["hashes"]))
        if there != ranges.ledger_total:
            raise NotAsCounted(f"{ranges.topic}: {there}, by the ledger {ranges.ledger_total}")

    return counted, check


def _wait_for(changes: DataFrame, observation: Observation) -> None:
    jvm = jvm_of(changes.sparkSession)
    future: Any = observation._jo.future()  # type: ignore[union-attr]  # noqa: SLF001 - get would wait for ever
    limit = jvm.scala.concurrent.duration.Duration.create(_WAIT)
    try:
        jvm.scala.concurrent.Await.ready(future, limit)
    except Py4JJavaError as error:
        raise NotAsCounted("Spark did not deliver the observed counts") from error
