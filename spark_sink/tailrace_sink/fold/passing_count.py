"""Counting a table's changes in the pass that writes them, before anything is committed.

A pass of its own reads and decodes every event once more, which took a quarter of an initial load's
fold (ADR 0048). What is counted here is the whole topic; which partition differs, and which record
is to blame, is found by the careful way (``table_fold``) once something does.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from py4j.protocol import Py4JJavaError
from pyspark.sql import DataFrame, Observation
from pyspark.sql import functions as F  # noqa: N812 - PySpark's own convention

from tailrace_schemas.records.progress import signed
from tailrace_sink.delta.classes import jvm_of
from tailrace_sink.fold.table_batch import TableBatch
from tailrace_sink.plan.topic_ranges import Counted, TopicRange
from tailrace_sink.tables.lake_table import POSITION

_WAIT: Final = "60 s"
"""Spark tells what was observed behind the action, by a queue of events that may drop some."""

Check = Callable[[], None]
"""Raises :class:`NotAsCounted`; asked when the rows have been read, before they are committed."""


class NotAsCounted(Exception):
    """What was read is not what the ledger counts, or that is not known."""


def is_enough(source: TableBatch) -> bool:
    """Whether a count in passing can stand for the ledger's.

    Not where a part of the topic is not written: events of other tables, or what stands before a
    whole table.
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
    """Changes that are counted when they are read for the first time.

    Args:
        changes: all changes of some ranges; with the column of positions.
        ranges: with the ledger's sums.

    Returns:
        The same changes, and what compares.
    """
    observation = Observation()
    hashes = F.sum(F.crc32(F.col(POSITION)))
    counted = changes.observe(
        observation,
        F.count(F.lit(1)).alias("changes"),
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
        raise NotAsCounted("Spark does not tell what it observed") from error
