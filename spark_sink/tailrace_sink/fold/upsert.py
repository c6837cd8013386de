"""Bringing the last change of each key into a table: the old rows out, the new ones in, one commit.

A change carries its whole row. So nothing of the old row is needed but where it is: one pass over
keys and positions finds it, and what a MERGE does with two more passes is a deletion vector and an
append (ADR 0043). Where that is not all, a MERGE is right: :func:`upsert` says so and does nothing.
"""

from __future__ import annotations

from array import array
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - PySpark's own convention

from tailrace_sink.delta.commits import in_parts
from tailrace_sink.delta.fence import Fence
from tailrace_sink.delta.transaction import DeltaTransaction
from tailrace_sink.fold.key_match import FILE, ROW, listed_condition, matches
from tailrace_sink.fold.write_choice import files_within
from tailrace_sink.options.config import DeleteMode
from tailrace_sink.rows.mirror_statements import same_key
from tailrace_sink.tables.key_bounds import KeyBound, conditions_of
from tailrace_sink.tables.lake_table import (
    CDC_COLUMNS,
    OPERATION,
    OWNER_PROPERTY,
    POSITION,
    LakeTable,
    quote,
)

_LISTED_BYTES_MAX: Final = 4 * 1024 * 1024
"""Of a table in which rows are found by a list of keys: a larger one is read by generated code, and
Spark would compile that anew for every list."""


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
        local: the same in memory where they are few.
        lacking: condition of those that do not hold all values of their row; None: all do.
    """

    rows: DataFrame
    bounds: Sequence[KeyBound]
    count: int
    local: pa.Table | None
    lacking: str | None


def upsert(
    spark: SparkSession,
    location: str,
    table: LakeTable,
    latest: Latest,
    delete_mode: DeleteMode,
    rewrite_below: int,
    fence: Fence | None = None,
) -> bool:
    """Bring the last change of each key into a Delta table.

    Args:
        spark: a session of this thread's own.
        location: of the table.
        table: what it is.
        latest: the changes.
        delete_mode: what becomes of the rows of deleted keys.
        rewrite_below: bytes of a table up to which files with rows that changed are written anew,
            and of a larger table's smallest files; 0: of none.
        fence: refuses a sink that was replaced.

    Returns:
        False where it takes a MERGE: rows that are newer than their change stay, values that a
        change does not hold and columns that are somebody else's are kept, and some features of
        Delta want to know more.

    Raises:
        LakeTaken: a newer sink has the table.
        PySparkException, Py4JError: as a MERGE; after a conflict it may be carried out again.
    """

    def committed() -> bool:
        transaction = DeltaTransaction(spark, location)
        if fence is not None:
            fence.require(location, transaction.property_of(OWNER_PROPERTY))
        return _committed(transaction, table, latest, delete_mode, rewrite_below)

    return in_parts(spark, f"upsert into {location}", committed) or False


def _committed(
    transaction: DeltaTransaction,
    table: LakeTable,
    latest: Latest,
    delete_mode: DeleteMode,
    rewrite_below: int,
) -> bool:
    """Whether the changes are in the table by one commit."""
    names = [*(c.name for c in table.columns), *CDC_COLUMNS]
    if set(transaction.columns) != set(names):
        return False
    size = transaction.bytes
    rewrites = 0 < rewrite_below >= size
    if not transaction.can_upsert or not (rewrites or transaction.has_deletion_vectors):
        return False
    if latest.lacking is not None and latest.rows.where(latest.lacking).limit(1).collect():
        return False
    listed: str | None = None
    if latest.local is not None and size <= _LISTED_BYTES_MAX:
        listed = listed_condition(latest.local, table)
    found = _find(transaction, table, latest, listed, with_rows=not rewrites)
    if found.has_newer:
        return False
    files = transaction.files(found.rows)
    if files is None:
        return False
    anew = set(files) if rewrites else _small(files, latest, rewrite_below)
    new, ours = latest.rows, list(map(quote, names))
    if delete_mode is DeleteMode.HARD:
        new = new.where(f"{OPERATION} <> 'd'")
    new = new.select(*ours)
    if anew:
        there = transaction.rows_of(files[name] for name in anew)
        new = _others(there, table, latest, listed).select(*ours).unionByName(new)
        transaction.remove(files[name] for name in anew)
    left = {name: rows for name, rows in found.rows.items() if name not in anew}
    if left:
        transaction.remove_rows(left, files)
    transaction.add(new if latest.local is None else new.coalesce(1))
    transaction.commit_merge({"operationNumSourceRows": latest.count})
    return True


def _others(there: DataFrame, table: LakeTable, latest: Latest, listed: str | None) -> DataFrame:
    """The rows of a table that have none of the keys."""
    if listed is not None and len(table.key) == 1:
        return there.where(f"NOT {listed}")
    same = F.expr(" AND ".join(same_key(table, "t", "s")))
    return there.alias("t").join(_few(latest).alias("s"), same, "left_anti")


def _find(
    transaction: DeltaTransaction,
    table: LakeTable,
    latest: Latest,
    listed: str | None,
    *,
    with_rows: bool,
) -> _Found:
    """One pass over the keys and positions of the files that may have any of the keys."""
    # Without deletion vectors a table does not tell it.
    row = "_metadata.row_index" if with_rows else "CAST(NULL AS BIGINT)"
    with transaction.reading(latest.bounds) as rows:
        there = rows.selectExpr(
            *map(quote, table.key), POSITION, f"_metadata.file_name AS {FILE}", f"{row} AS {ROW}"
        ).alias("t")
        for condition in conditions_of(latest.bounds):
            there = there.where(condition)
        if listed is not None and latest.local is not None:
            found = _read(there.where(listed))
            return _Found(*matches(found, latest.local, table))
        matched = there.join(
            _few(latest).alias("s"), F.expr(" AND ".join(same_key(table, "t", "s")))
        )
        is_newer = f"t.{POSITION} IS NULL OR s.{POSITION} > t.{POSITION}"
        found = _read(
            matched.groupBy(FILE).agg(
                F.collect_list(ROW).alias("rows"), F.expr(f"bool_and({is_newer})").alias("newer")
            )
        )
    names, rows_of, are_newer = (found[name] for name in (FILE, "rows", "newer"))
    return _Found(
        {
            str(name): array("q", rows.values.to_numpy(zero_copy_only=False).tobytes())
            for name, rows in zip(names.to_pylist(), rows_of, strict=True)
        },
        not all(are_newer.to_pylist()),
    )


def _read(rows: DataFrame) -> pa.Table:
    rows._jdf.queryExecution().executedPlan()  # noqa: SLF001 - planned here: it is noted as read
    return rows.toArrow()


def _small(files: Mapping[str, Any], latest: Latest, bytes_max: int) -> set[str]:
    """The smallest of the files with rows that changed, together not more than some bytes.

    Each upsert adds a file, and changes of keys all over the table come to all of them. A small one
    costs less to write anew, together with some changes, than to read with its deletion vector ever
    after (ADR 0046).
    """
    if latest.local is None:
        return set()
    sizes = sorted((int(file.size()), name) for name, file in files.items())
    return {name for _, name in sizes[: files_within([size for size, _ in sizes], bytes_max)]}


def _few(latest: Latest) -> DataFrame:
    return latest.rows if latest.local is None else F.broadcast(latest.rows)
