"""Bringing the last change of each key into a table: the old rows out, the new ones in, one commit.

A change carries its whole row. So nothing of the old row is needed but where it is: one pass over
keys and positions finds it, and what a MERGE does with two more passes is a deletion vector and an
append (ADR 0043). Where that is not all, a MERGE is right: :func:`upsert` says so and does nothing.
"""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from dataclasses import dataclass

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - PySpark's own convention

from tailrace_sink.config import DeleteMode
from tailrace_sink.delta_transaction import DeltaTransaction, is_available
from tailrace_sink.key_bounds import KeyBound, conditions_of
from tailrace_sink.lake_table import CDC_COLUMNS, OPERATION, POSITION, LakeTable, quote


@dataclass(frozen=True, slots=True)
class _Found:
    """Where the rows of the changes' keys are.

    Attributes:
        rows: name of a file to row indexes in it, where these are wanted.
        has_newer: whether a row is as new as its change, or newer.
    """

    rows: dict[str, array[int]]
    has_newer: bool


@dataclass(frozen=True, slots=True)
class Latest:
    """The last change of each key.

    Attributes:
        rows: the table's columns and the ``_cdc_*`` columns.
        bounds: between which every key is.
        count: how many.
        are_few: whether they are a local relation.
        are_whole: whether every one has a value for each column that its row has.
    """

    rows: DataFrame
    bounds: Sequence[KeyBound]
    count: int
    are_few: bool
    are_whole: bool


def upsert(
    spark: SparkSession,
    location: str,
    table: LakeTable,
    latest: Latest,
    delete_mode: DeleteMode,
    rewrite_below: int,
) -> bool:
    """Bring the last change of each key into a Delta table.

    Args:
        spark: a session of this thread's own.
        location: of the table.
        table: what it is.
        latest: the changes.
        delete_mode: what becomes of the rows of deleted keys.
        rewrite_below: bytes of a table up to which files with rows that changed are written anew;
            0: of none.

    Returns:
        False where it takes a MERGE: rows that are newer than their change stay, values that a
        change does not hold and columns that are somebody else's are kept, and some features of
        Delta want to know more.

    Raises:
        PySparkException, Py4JError: as a MERGE; after a conflict it may be carried out again.
    """
    if table.foreign or not latest.are_whole or not is_available(spark):
        return False
    transaction = DeltaTransaction(spark, location)
    rewrites = 0 < rewrite_below >= transaction.bytes
    if not transaction.can_upsert or not (rewrites or transaction.has_deletion_vectors):
        return False
    found = _find(transaction, table, latest, with_rows=not rewrites)
    if found.has_newer:
        return False
    files = transaction.files(found.rows)
    names = [quote(name) for name in [*(c.name for c in table.columns), *CDC_COLUMNS]]
    new = latest.rows
    if delete_mode is DeleteMode.HARD:
        new = new.where(f"{OPERATION} <> 'd'")
    new = new.select(*names)
    if rewrites and files:
        there = transaction.rows_of(files.values()).alias("t")
        same = " AND ".join(_same_key(table))
        stays = there.join(_few(latest).alias("s"), F.expr(same), "left_anti")
        new = stays.select(*names).unionByName(new)
        transaction.remove(files.values())
    elif files:
        transaction.remove_rows(found.rows, files)
    transaction.add(new.coalesce(1) if latest.are_few else new)
    transaction.commit({"operationNumSourceRows": latest.count})
    return True


def _find(
    transaction: DeltaTransaction, table: LakeTable, latest: Latest, *, with_rows: bool
) -> _Found:
    """One pass over the keys and positions of the files that may have any of the keys."""
    # Without deletion vectors a table does not tell it.
    row = "_metadata.row_index" if with_rows else "CAST(NULL AS BIGINT)"
    is_newer = f"t.{POSITION} IS NULL OR s.{POSITION} > t.{POSITION}"
    with transaction.reading(latest.bounds) as rows:
        there = rows.selectExpr(
            *map(quote, table.key),
            POSITION,
            "_metadata.file_name AS _cdc_file",
            f"{row} AS _cdc_row",
        ).alias("t")
        for condition in conditions_of(latest.bounds):
            there = there.where(condition)
        matched = there.join(_few(latest).alias("s"), F.expr(" AND ".join(_same_key(table))))
        by_file = matched.groupBy("_cdc_file").agg(
            F.collect_list("_cdc_row").alias("rows"),
            F.expr(f"bool_and({is_newer})").alias("are_newer"),
        )
        by_file._jdf.queryExecution().executedPlan()  # noqa: SLF001 - planned here: it is read
        found = by_file.toArrow()
    names, rows_of, are_newer = (found[name] for name in ("_cdc_file", "rows", "are_newer"))
    return _Found(
        {
            str(name): array("q", rows.values.to_numpy(zero_copy_only=False).tobytes())
            for name, rows in zip(names.to_pylist(), rows_of, strict=True)
        },
        not all(are_newer.to_pylist()),
    )


def _few(latest: Latest) -> DataFrame:
    return F.broadcast(latest.rows) if latest.are_few else latest.rows


def _same_key(table: LakeTable) -> list[str]:
    return [f"t.{quote(name)} <=> s.{quote(name)}" for name in table.key]
