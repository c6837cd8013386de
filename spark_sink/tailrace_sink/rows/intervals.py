"""Validity intervals (SCD type 2) of the rows of a keyed table, from its changes.

Changes of a key come in the order of their LSN. Within one LSN, what a snapshot read or found
missing comes after the changes, as a snapshot reads the state after them. Its position, which has
no command id, sequence value or operation, would sort before them.

A snapshot row that equals the row that is there opens no interval. A large value that a change
lacks (``unavailable``) is that of the row before.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from pyspark.sql import Column, DataFrame, Window, WindowSpec
from pyspark.sql import functions as F  # noqa: N812 - PySpark's own convention

from tailrace_sink.plan.sink_state import CutPoint
from tailrace_sink.rows.decode import UNAVAILABLE
from tailrace_sink.rows.mirror_statements import same_key
from tailrace_sink.tables.lake_table import (
    COMMIT_TIME,
    CURRENT,
    LSN,
    OPERATION,
    POSITION,
    VALID_FROM,
    VALID_FROM_LSN,
    VALID_TO,
    VALID_TO_LSN,
    LakeTable,
    literal,
    quote,
)

KNOWN: Final = "_cdc_is_known"
"""Flag of rows that open the interval which a key has already: they come first."""
_FROM_SNAPSHOT: Final = f"substring({POSITION}, -1, 1) = X'00'"
"""Condition of the position of a snapshot row: only there the operation is zero."""


def intervals(
    changes: DataFrame, names: Sequence[str], key: Sequence[str], large: Sequence[str] = ()
) -> DataFrame:
    """Compute the validity intervals of the rows that some changes made.

    Args:
        changes: with the table's columns, those of CDC and, if ``large`` is given, the names of
            unavailable columns. A flag ``KNOWN`` is optional.
        names: of the columns that are compared.
        large: names of columns that a change may lack.

    Returns:
        A row for each interval, with ``_cdc_valid_*`` and ``_cdc_is_current``. Open ends are NULL.
        A delete ends an interval and is no row.
    """
    if KNOWN not in changes.columns:
        changes = changes.withColumn(KNOWN, F.expr("false"))
    in_order = Window.partitionBy(*map(quote, key)).orderBy(
        F.col(KNOWN).desc(), F.col(LSN), F.expr(_FROM_SNAPSHOT), F.col(POSITION)
    )
    changes = _newer_than_known(changes, in_order)
    changes = _with_large(changes, large, in_order)
    values = F.struct(*(F.col(quote(name)) for name in names))
    before, was = F.lag(values).over(in_order), F.lag(OPERATION).over(in_order)
    # A patch is an update. Of a row that a snapshot did not find there is a delete.
    is_patch = (F.col(OPERATION) == "u") & F.expr(_FROM_SNAPSHOT)
    is_read = (F.col(OPERATION) == "r") | is_patch
    is_same = is_read & (was != "d") & values.eqNullSafe(before)
    changes = changes.withColumn(
        "_cdc_is_same", F.coalesce(is_same & ~F.col(KNOWN), F.expr("false"))
    )
    changes = changes.where("NOT _cdc_is_same").drop("_cdc_is_same")
    ended = F.lead(LSN).over(in_order)
    return (
        changes.withColumn(VALID_TO_LSN, ended)
        .withColumn(VALID_TO, F.lead(COMMIT_TIME).over(in_order))
        .withColumn(VALID_FROM_LSN, F.col(LSN))
        .withColumn(VALID_FROM, F.col(COMMIT_TIME))
        .withColumn(CURRENT, F.col(VALID_TO_LSN).isNull())
        .where(F.col(OPERATION) != "d")
    )


def _newer_than_known(changes: DataFrame, in_order: WindowSpec) -> DataFrame:
    """Remove the changes that the interval which a key has already includes."""
    known = F.struct(LSN, POSITION, F.expr(_FROM_SNAPSHOT).alias("is_read"))
    first = F.first(F.when(F.col(KNOWN), known)).over(in_order)
    with_first = changes.withColumn("_cdc_known", first)
    is_older = (
        f"NOT {KNOWN} AND _cdc_known IS NOT NULL AND ({LSN} < _cdc_known.{LSN} OR"
        f" ({LSN} = _cdc_known.{LSN} AND NOT ({_FROM_SNAPSHOT})"
        f" AND (_cdc_known.is_read OR {POSITION} <= _cdc_known.{POSITION})))"
    )
    return with_first.where(f"NOT ({is_older})").drop("_cdc_known")


def _with_large(changes: DataFrame, large: Sequence[str], in_order: WindowSpec) -> DataFrame:
    """Give changes the large values that they lack, from the rows before."""
    if not large:
        return changes
    up_to_here = in_order.rowsBetween(Window.unboundedPreceding, Window.currentRow)

    def latest(name: str) -> Column:
        is_there = ~F.coalesce(F.array_contains(UNAVAILABLE, name), F.expr("false"))
        has_value = F.col(KNOWN) | (is_there & (F.col(OPERATION) != "d"))
        value = F.struct(F.col(quote(name)).alias("value"))
        return F.last(F.when(has_value, value), ignorenulls=True).over(up_to_here)["value"]

    return changes.withColumns({name: latest(name) for name in large})


def compared_columns(table: LakeTable) -> list[str]:
    """Return the names of the columns that the source still has."""
    return [c.name for c in table.columns if c.column_id > 0 and c.column_id not in table.dropped]


def known_rows(history: DataFrame, names: Sequence[str]) -> DataFrame:
    """Select the current rows of a history table, in the form of changes that opened them."""
    return history.where(CURRENT).selectExpr(
        *map(quote, names),
        POSITION,
        OPERATION,
        f"{VALID_FROM_LSN} AS {LSN}",
        f"{VALID_FROM} AS {COMMIT_TIME}",
        f"true AS {KNOWN}",
    )


def without_gone(after: DataFrame, rows: DataFrame, table: LakeTable, cut: CutPoint) -> DataFrame:
    """Close, at a cut, the current intervals of keys that the source no longer has.

    Args:
        after: the result of :func:`intervals`.
        rows: all rows that the source has at the cut.
    """
    there = "_cdc_is_there"
    keys = rows.select(*map(quote, table.key)).withColumn(there, F.expr("true")).alias("rows")
    same = F.expr(" AND ".join(same_key(table, "after", "rows")))
    commit = "NULL" if cut.commit_ms is None else f"timestamp_millis({cut.commit_ms})"
    joined = after.alias("after").join(keys, same, "left").select("after.*", there)
    is_gone = f"{CURRENT} AND {there} IS NULL"
    ends = {VALID_TO_LSN: literal(cut.lsn), VALID_TO: f"CAST({commit} AS TIMESTAMP)"}
    closed = {
        name: F.expr(f"CASE WHEN {is_gone} THEN {end} ELSE {name} END")
        for name, end in ends.items()
    }
    closed[CURRENT] = F.expr(f"{CURRENT} AND {there} IS NOT NULL")
    return joined.withColumns(closed).drop(there)
