"""A lake table's rows with the log's tail applied, as the fold would do it.

Decoding and reduction are those of the fold. Instead of a MERGE, the rows that the tail does not
change are combined with the tail's own. Nothing is written.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import reduce
from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 - PySpark's own convention

from tailrace_sink.fold.table_batch import TableBatch
from tailrace_sink.options.modes import DeleteMode
from tailrace_sink.plan.sink_state import CutPoint
from tailrace_sink.reading.tail_table import TableRows, following, of_source, versions
from tailrace_sink.rows.aligned_rows import aligned
from tailrace_sink.rows.decode import change_rows
from tailrace_sink.rows.intervals import (
    KNOWN,
    compared_columns,
    intervals,
    known_rows,
    without_gone,
)
from tailrace_sink.rows.last_change import available_flag, large_columns, latest_changes
from tailrace_sink.rows.mirror_statements import snapshot_position
from tailrace_sink.tables.lake_table import (
    CURRENT,
    LSN,
    OPERATION,
    POSITION,
    Kind,
    LakeTable,
    literal,
    quote,
)
from tailrace_sink.tables.new_table import new_table
from tailrace_sink.tables.origins import own_rows

_BASE: Final = "_tailrace_base"
_TAIL: Final = "_tailrace_tail"


def with_tail(
    base: TableRows[DataFrame] | None,
    tail: TableBatch,
    values: DataFrame,
    deletes: str,
    cut_lsn: str,
    kind: Kind,
) -> TableRows[DataFrame]:
    """Compute the rows of one lake table after the changes of one source.

    Args:
        base: the table at the version of the commit row; None if it did not exist.
        tail: the table's part of the log's tail.
        values: events of the tail.

    Raises:
        UnsupportedSchemaChange: the table cannot follow the tail; the fold will stop it.
    """
    if not tail.writers:
        # Its snapshot found no row.
        if base is None:
            raise ValueError("neither a table nor an event of it")
        table = of_source(base.table, tail)
        return TableRows(table, _all_deleted(base.rows, table, deletes, cut_lsn))
    appends = kind.appends
    known = new_table(versions(tail)[0], kind) if base is None else base.table
    table = following(known, tail)
    whole_from = None if appends else tail.topic_range.whole_from
    changes = change_rows(_without(values, whole_from), table, tail.writers, tail.other_writers)
    names = [*(column.name for column in table.columns), *table.cdc_columns]
    rows = None if base is None else aligned(base.table, base.rows, table)
    if appends:
        added = changes.select(*map(quote, names))
        every = added if rows is None else rows.unionByName(added, allowMissingColumns=True)
        return TableRows(table, every)
    whole_at = cut_lsn if whole_from is not None else None
    return TableRows(table, _keyed(rows, changes, table, names, deletes, whole_at))


def history_with_tail(
    base: TableRows[DataFrame],
    tail: TableBatch,
    values: DataFrame,
    rows: DataFrame | None,
    cut: CutPoint,
) -> TableRows[DataFrame]:
    """Compute the validity intervals of one table after the changes of one source.

    Args:
        base: the history table at the version of the commit row.
        tail: the table's part of the log's tail.
        values: events of the tail.
        rows: the source's rows at the cut, if the tail has the whole table.
    """
    table = of_source(base.table, tail)
    if tail.writers:
        table = following(table, tail)
    every_there = aligned(base.table, base.rows, table)
    there = every_there.where(own_rows(table))
    names = [column.name for column in table.columns]
    every = known_rows(there, names)
    if tail.writers:
        changes = change_rows(values, table, tail.writers, tail.other_writers)
        every = every.unionByName(
            changes.withColumn(KNOWN, F.expr("false")), allowMissingColumns=True
        )
    after = intervals(every, compared_columns(table), table.key, large_columns(table))
    if rows is not None:
        rows = rows.where(f"{OPERATION} <> 'd'")
        after = without_gone(after, rows, table, cut)
    columns = [*names, *table.cdc_columns]
    stays = every_there.where(f"NOT ({CURRENT} AND {own_rows(table)})")
    changed = after.select(*map(quote, columns))
    return TableRows(table, stays.select(*map(quote, columns)).unionByName(changed))


def _keyed(
    rows: DataFrame | None,
    changes: DataFrame,
    table: LakeTable,
    names: Sequence[str],
    deletes: str,
    whole_at: str | None,
) -> DataFrame:
    large = large_columns(table)
    latest = latest_changes(changes, table, large)
    is_hard = deletes != DeleteMode.SOFT
    if rows is None:
        there = latest.where(f"{OPERATION} <> 'd'") if is_hard else latest
        return there.select(*map(quote, names))
    old, new = rows.alias(_BASE), latest.alias(_TAIL)
    same = reduce(Column.__and__, (_of(_BASE, k).eqNullSafe(_of(_TAIL, k)) for k in table.key))
    flags = {name: available_flag(index) for index, name in enumerate(large)}
    foreign = [name for name in rows.columns if name not in set(names)]
    if flags or foreign:
        joined = new.join(old, same, "left")
        columns = [
            F.when(_of(_TAIL, flags[name]), _of(_TAIL, name)).otherwise(_of(_BASE, name))
            if name in flags
            else _of(_TAIL, name)
            for name in names
        ]
        listed = [column.alias(name) for column, name in zip(columns, names, strict=True)]
        changed = joined.select(*listed, *(_of(_BASE, name).alias(name) for name in foreign))
    else:
        changed = latest.select(*map(quote, names))
    if is_hard:
        changed = changed.where(f"{OPERATION} <> 'd'")
    kept = old.join(new, same, "left_anti")
    if whole_at is not None:
        kept = _all_deleted(kept, table, deletes, whole_at)
    return kept.unionByName(changed)


def _of(side: str, name: str) -> Column:
    return F.col(f"{side}.{quote(name)}")


def _without(values: DataFrame, from_offsets: Mapping[int, int] | None) -> DataFrame:
    """Remove the changes before a whole table, which replaces them."""
    if not from_offsets:
        return values
    before = [f"(partition = {p} AND offset < {first})" for p, first in from_offsets.items()]
    return values.where(f"NOT ({' OR '.join(before)})")


def _all_deleted(rows: DataFrame, table: LakeTable, deletes: str, cut_lsn: str) -> DataFrame:
    """Delete all rows of the table's source."""
    if deletes != DeleteMode.SOFT:
        return rows.where(f"NOT ({own_rows(table)})")
    gone = F.expr(f"{OPERATION} <> 'd' AND {own_rows(table)}")
    return rows.withColumns(
        {
            POSITION: F.when(gone, F.expr(snapshot_position(cut_lsn))).otherwise(F.col(POSITION)),
            LSN: F.when(gone, F.expr(literal(cut_lsn))).otherwise(F.col(LSN)),
            OPERATION: F.when(gone, F.lit("d")).otherwise(F.col(OPERATION)),
        }
    )
