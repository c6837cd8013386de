"""The past changes of a lake table, from the log: what a companion that is switched on starts with.

The rows of the mirror at an old cut, and the changes since, are the history of the table from that
cut on. The cut is the oldest kept one after which the log has every change:

- the table is in every cut since, so it was neither stopped nor in a snapshot;
- no cut of the log lacks events of it (``lost``, bulk cuts);
- the log has no snapshot rows of it since: what a snapshot does not find has no event.

At last the rows that the changes lead to are compared with the mirror. If anything else is missing,
they differ, and the companion starts with the mirror.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Final

import structlog
from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - PySpark's own convention

from tailrace_sink.errors import SinkError
from tailrace_sink.log.oldest_cut import OldestCutFile
from tailrace_sink.log.schema_store import SchemaStore
from tailrace_sink.options.config import SinkConfig
from tailrace_sink.plan.log_state import LogState
from tailrace_sink.plan.sink_state import CutPoint
from tailrace_sink.ports.table_format import TableReader
from tailrace_sink.rows.aligned_rows import aligned
from tailrace_sink.rows.bad_records import Screen
from tailrace_sink.rows.decode import change_rows
from tailrace_sink.rows.mirror_statements import same_key
from tailrace_sink.rows.writer_schema import writer_schema
from tailrace_sink.tables.lake_table import LSN, OPERATION, POSITION, LakeTable, literal, quote

_log = structlog.get_logger("tailrace.sink")
_LACKS: Final = (
    "get_json_object(state, '$.lost') <> '{}' OR get_json_object(state, '$.in_kafka') <> '{}'"
)
"""Condition of states of the log whose cut lacks events."""


@dataclass(frozen=True, slots=True)
class PastChanges:
    """The past of a mirror.

    Attributes:
        start: the cut with which it starts.
        rows: the rows of the mirror at that cut, with its present columns.
        changes: every change after it, decoded for the companion.
    """

    start: CutPoint
    rows: DataFrame
    changes: DataFrame


@dataclass(frozen=True, slots=True)
class _Kept:
    """A kept cut that has the mirror, at a version."""

    point: CutPoint
    version: int


def past_changes(
    spark: SparkSession,
    config: SinkConfig,
    tables: TableReader,
    mirror: LakeTable,
    companion: LakeTable,
    up_to: CutPoint,
) -> PastChanges | None:
    """Read the past of a mirror from the log; None if the log is not complete.

    Args:
        mirror: of one source table, at the cut ``up_to``.
    """
    try:
        return _past(spark, config, tables, mirror, companion, up_to)
    except (PySparkException, Py4JError, SinkError) as error:
        # A companion without its past is right, too, so no table stops for this.
        _log.warning("past_changes_unknown", table=mirror.path, reason=str(error))
        return None


def _past(
    spark: SparkSession,
    config: SinkConfig,
    tables: TableReader,
    mirror: LakeTable,
    companion: LakeTable,
    up_to: CutPoint,
) -> PastChanges | None:
    topic = config.topics.data(mirror.table)
    rows = spark.read.format("delta").load(config.log_path)
    states = rows.where("topic = ''")
    kept = _after(_kept_cuts(spark, config, mirror, up_to), _complete_from(states, topic))
    if not kept or kept[0].point.batch == up_to.batch:
        return None
    values = rows.where(f"topic = {literal(topic)} AND value IS NOT NULL")
    changes = _decoded(spark, config, companion, values, up_to)
    if changes is not None:
        read = changes.where(f"{OPERATION} = 'r'").selectExpr(f"max({LSN}) AS lsn").first()
        kept = _after(kept, "" if read is None or read["lsn"] is None else read["lsn"])
    if changes is None or not kept or kept[0].point.batch == up_to.batch:
        return None
    start, version = kept[0].point, kept[0].version
    base = _at(spark, tables, mirror, version)
    changes = changes.where(f"{LSN} > {literal(start.lsn)}")
    return (
        PastChanges(start, base, changes)
        if _leads_to(spark, tables, mirror, base, changes)
        else None
    )


def _kept_cuts(
    spark: SparkSession, config: SinkConfig, mirror: LakeTable, up_to: CutPoint
) -> list[_Kept]:
    """List the kept cuts up to a point since the mirror is in each of them, the oldest first."""
    oldest = OldestCutFile(spark, config.retention_path, config.commits_path).read()
    commits = spark.read.format("delta").load(config.commits_path)
    found = (
        commits.where(f"batch >= {oldest.batch} AND batch <= {up_to.batch}")
        .orderBy(F.col("batch").desc())
        .selectExpr(
            "batch",
            "through_lsn",
            "unix_millis(through_commit_time) AS commit_ms",
            f"tables[{literal(mirror.path)}] AS version",
        )
        .collect()
    )
    kept: list[_Kept] = []
    for row in found:
        if row["version"] is None:
            break
        kept.insert(
            0, _Kept(CutPoint(row["batch"], row["through_lsn"], row["commit_ms"]), row["version"])
        )
    return kept


def _after(kept: Sequence[_Kept], lsn: str) -> list[_Kept]:
    """Select the cuts at or after an LSN."""
    return [cut for cut in kept if cut.point.lsn >= lsn]


def _complete_from(states: DataFrame, topic: str) -> str:
    """Find the LSN after which the log lacks no event of a topic."""
    first = states.selectExpr("min_by(lsn, batch) AS lsn").first()
    lsns = ["" if first is None else first["lsn"] or ""]
    for row in states.where(_LACKS).select("lsn", "state").collect():
        state = LogState.of_json(row["state"])
        if topic in state.lost or topic in state.in_kafka:
            lsns.append(row["lsn"])
    return max(lsns)


def _decoded(
    spark: SparkSession,
    config: SinkConfig,
    companion: LakeTable,
    values: DataFrame,
    up_to: CutPoint,
) -> DataFrame | None:
    """Decode the good records of a topic up to a cut; None if there are none of the table."""
    schemas = SchemaStore(spark, config.log_path, config.schemas_path)
    topic = config.topics.data(companion.table)
    ids = sorted(row[0] for row in values.select("schema_id").distinct().collect() if row[0])
    writers = [writer_schema(i, schemas.schema_by_id(i), topic) for i in ids]
    own = tuple(w for w in writers if w.version.table == companion.table)
    if not own:
        return None
    other = tuple(w for w in writers if w.version.table != companion.table)
    good = Screen(companion.table, topic, own, other).good(values)
    return change_rows(good, companion, own, other).where(f"{LSN} <= {literal(up_to.lsn)}")


def _at(spark: SparkSession, tables: TableReader, mirror: LakeTable, version: int) -> DataFrame:
    """Read the rows of the mirror at a version, with its present columns."""
    known = tables.described(spark, mirror.table, mirror.kind, version)
    if known is None:
        raise ValueError(f"no table at {mirror.path}")
    there = tables.rows(spark, mirror.path, version)
    return aligned(known, there, mirror).where(f"{OPERATION} <> 'd'")


def _leads_to(
    spark: SparkSession,
    tables: TableReader,
    mirror: LakeTable,
    base: DataFrame,
    changes: DataFrame,
) -> bool:
    """Whether changes lead from old rows to those of the mirror."""
    columns = [*map(quote, mirror.key), POSITION, OPERATION]
    every = reduce(DataFrame.unionByName, (frame.select(*columns) for frame in (base, changes)))
    newest = every.groupBy(*map(quote, mirror.key)).agg(
        F.expr(f"max({POSITION}) AS {POSITION}"),
        F.expr(f"max_by({OPERATION}, {POSITION}) AS {OPERATION}"),
    )
    there = tables.rows(spark, mirror.path).select(*columns)
    both = [frame.where(f"{OPERATION} <> 'd'") for frame in (newest, there)]
    same = " AND ".join([*same_key(mirror, "one", "other"), f"one.{POSITION} = other.{POSITION}"])
    joined = both[0].alias("one").join(both[1].alias("other"), F.expr(same), "full_outer")
    lacks = joined.where(f"one.{POSITION} IS NULL OR other.{POSITION} IS NULL")
    return lacks.isEmpty()
