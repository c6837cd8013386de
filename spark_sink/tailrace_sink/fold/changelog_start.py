"""Start of a ``.changes`` table that is switched on, or on again, after its table.

It starts with the rows that the table had at the previous cut, each with operation ``r``, as after
a snapshot. So it is complete from that LSN on. If it was switched on before, rows that left in
between are deleted at that LSN.
"""

from __future__ import annotations

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - PySpark's own convention

from tailrace_sink.delta.fence import Fence
from tailrace_sink.fold.apply import append_changes, deletes_of
from tailrace_sink.options.config import SinkConfig
from tailrace_sink.plan.sink_state import CutPoint
from tailrace_sink.rows.mirror_statements import same_key
from tailrace_sink.tables.lake_table import OPERATION, POSITION, LakeTable, quote

_PURPOSE = "-start"


def start_changelog(
    spark: SparkSession,
    config: SinkConfig,
    fence: Fence,
    table: LakeTable,
    changes_table: LakeTable,
    after: CutPoint,
    batch: int,
) -> None:
    """Append the rows of a mirror to its companion, once per batch id.

    Args:
        table: the mirror at the cut ``after``.
        batch: id of the first batch that the companion follows.
    """
    there = _load(spark, config, table).where(f"{OPERATION} <> 'd'")
    known = _load(spark, config, changes_table)
    newest = known.groupBy(*map(quote, table.key)).agg(
        F.expr(f"max_by(struct(*), {POSITION})").alias("newest")
    )
    had = newest.select("newest.*").where(f"{OPERATION} <> 'd'")
    same = F.expr(" AND ".join(same_key(table, "had", "there")))
    gone = had.alias("had").join(there.alias("there"), same, "left_anti")
    rows = deletes_of(there, table, after).withColumn(OPERATION, F.lit("r"))
    every = rows.unionByName(deletes_of(gone, table, after))
    append_changes(config, fence, changes_table, every, batch, purpose=_PURPOSE)


def _load(spark: SparkSession, config: SinkConfig, table: LakeTable) -> DataFrame:
    return spark.read.format("delta").load(f"{config.lake}/{table.path}")
