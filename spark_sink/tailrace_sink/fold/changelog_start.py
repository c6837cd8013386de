"""Where a ``.changes`` table starts that is switched on, or on again, after its table.

Its first rows are the table as it stood at the cut before, each with operation ``r``, as after a
snapshot. So it is whole from that LSN on, and what it shows of the time before is nothing, or what
it had when it was switched off: rows that left since then are deleted at that LSN.
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
    """Append what a mirror holds to its companion, once per batch id.

    Args:
        spark: the session of this table.
        config: the options.
        fence: of the sink.
        table: the mirror, as the cut before left it.
        changes_table: its companion.
        after: the cut before.
        batch: the batch id of the first batch that the companion follows.
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
