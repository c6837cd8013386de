"""The lake's side: the same hashes over the rows of a cut, and where they differ, in Spark."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql.functions import broadcast, coalesce, count, expr, first, lit
from pyspark.sql.functions import hex as digits
from pyspark.sql.functions import sum as total
from pyspark.sql.types import StringType, StructField, StructType

from tailrace.verify.canonical_text import CanonicalColumn, as_held, lake_row
from tailrace.verify.not_provable import NotProvable
from tailrace.verify.ranges import EVERYTHING, Checksum, KeyRange, lake_parts, range_of, whole
from tailrace.verify.source_rows import COUNT, HASH, key_names
from tailrace.verify.table_shape import Key, TableShape
from tailrace_schemas.position.change_position import ChangePosition
from tailrace_schemas.position.lsn import Lsn
from tailrace_sink.tables.lake_table import CHANGED, OPERATION, POSITION, quote

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_LAKE_HASH: Final = "lake_hash"
_LAKE_COUNT: Final = "lake_count"
_ONE: Final = f"CASE WHEN {OPERATION} = 'd' THEN -1 ELSE 1 END"
"""How a change of a keyless table changes the number of its rows."""
DIFFERENCES_MAX: Final = 20_000
"""Rows of a table that are looked at one by one; further ones are only counted."""


@dataclass(frozen=True, slots=True)
class Difference:
    """A row that is not the same on both sides.

    Attributes:
        source: how often the source has a row with the key.
        lake: how often the lake has one.
    """

    key: Key
    source: int
    lake: int


@dataclass(frozen=True, slots=True)
class Differences:
    """Where two sides differ.

    Attributes:
        rows: at most ``DIFFERENCES_MAX`` of them.
        count: of all, listed or not.
    """

    rows: Sequence[Difference]
    count: int


def present_rows(table: DataFrame, shape: TableShape) -> DataFrame:
    """Return the rows that the source should have, from a table of a cut.

    Raises:
        NotProvable: the table lacks a column, or does not show which rows there are.
    """
    missing = [c.name for c in shape.columns if c.name not in table.columns]
    if missing:
        raise NotProvable(
            f"table {shape.table}: the cut has no column {', '.join(missing)}. Fix: if it is new,"
            " run tailrace verify again when the lake has a change of the table"
        )
    if shape.key and CHANGED in table.columns:
        raise NotProvable(
            f"table {shape.table} has a key at the source, and none in the lake. Fix: take a"
            f" snapshot, which creates its lake table again (tailrace snapshot {shape.table})"
        )
    if shape.key:
        return table.where(f"{OPERATION} <> 'd'")
    if CHANGED not in table.columns:
        raise NotProvable(f"table {shape.table} has no key at the source, but one in the lake")
    return table


def _held_shape(shape: TableShape, table: DataFrame) -> TableShape:
    """Return the shape whose columns are written from the types that the lake has."""
    held = dict(table.dtypes)

    def written(columns: Sequence[CanonicalColumn]) -> tuple[CanonicalColumn, ...]:
        return tuple(as_held(c, held[c.name]) if c.name in held else c for c in columns)

    return replace(shape, columns=written(shape.columns), key=written(shape.key))


def checksums(
    shape: TableShape, table: DataFrame, ranges: Sequence[KeyRange]
) -> dict[int, Checksum]:
    """Return the checksum of each range that has rows, by its number.

    Args:
        ranges: each follows the one before it.

    Raises:
        NotProvable: the table cannot be compared (:func:`present_rows`).
    """
    shape = _held_shape(shape, table)
    name = shape.newest.identity[0]
    lasts = [keys.last for keys in ranges if keys.last is not None]
    rows = present_rows(table, shape).where(whole(ranges).lake_condition(quote(name)))
    hashed = rows.selectExpr(
        f"{range_of(name, lasts)} AS number", f"{lake_row(shape.columns)} AS {_LAKE_HASH}"
    )
    parts = [f"SUM({part})" for part in lake_parts(_LAKE_HASH)]
    grouped = hashed.groupBy("number").agg(*map(expr, ["COUNT(1)", *parts]))
    return {row[0]: tuple(row[1:]) for row in grouped.collect()}


def row_count(shape: TableShape, table: DataFrame) -> int:
    """Return the rows of the lake.

    Raises:
        NotProvable: the table cannot be compared (:func:`present_rows`).
    """
    rows = present_rows(table, shape)
    if shape.key:
        return rows.count()
    (counted,) = rows.selectExpr(f"SUM({_ONE})").collect()
    return counted[0] or 0


def differences(
    spark: SparkSession,
    shape: TableShape,
    source: pa.Table,
    table: DataFrame,
    ranges: Sequence[KeyRange],
) -> Differences:
    """Compare the hashes of all rows of some ranges.

    Args:
        source: as ``SourceRows.rows`` returns it.
        table: the table of a cut.

    Raises:
        NotProvable: the table cannot be compared (:func:`present_rows`).
    """
    shape = _held_shape(shape, table)
    rows = present_rows(table, shape)
    if tuple(ranges) != (EVERYTHING,):
        name = quote(shape.newest.identity[0])
        rows = rows.where(" OR ".join(f"({keys.lake_condition(name)})" for keys in ranges))
    lake, by = (_keyed(rows, shape), key_names(shape)) if shape.key else (_counted(rows, shape), [])
    frame = spark.createDataFrame(source)
    if shape.key:
        frame = frame.withColumn(COUNT, lit(1).cast("bigint"))
        same = [frame[name].eqNullSafe(lake[name]) for name in by]
        key = [coalesce(frame[name], lake[name]).alias(name) for name in by]
    else:
        same = [frame[HASH].eqNullSafe(lake[_LAKE_HASH])]
        key = [digits(coalesce(frame[HASH], lake[_LAKE_HASH])).alias("key_0")]
    differs = ~frame[HASH].eqNullSafe(lake[_LAKE_HASH]) | ~frame[COUNT].eqNullSafe(
        lake[_LAKE_COUNT]
    )
    counts = [coalesce(found, lit(0)) for found in (frame[COUNT], lake[_LAKE_COUNT])]
    joined = frame.join(lake, same, "full_outer").where(differs).select(*key, *counts)
    found = joined.limit(DIFFERENCES_MAX + 1).collect()
    of_all = len(found) if len(found) <= DIFFERENCES_MAX else joined.count()
    listed = [Difference(tuple(row[:-2]), row[-2], row[-1]) for row in found[:DIFFERENCES_MAX]]
    return Differences(listed, of_all)


def texts_of(
    spark: SparkSession, shape: TableShape, table: DataFrame, keys: Sequence[Key]
) -> dict[Key, list[Sequence[str | None]]]:
    """Return the canonical texts of the columns of the rows with some keys.

    A key has several rows only if the lake is wrong.
    """
    shape = _held_shape(shape, table)
    count = len(key_names(shape))
    rows = _with_keys(
        spark,
        shape,
        present_rows(table, shape),
        keys,
        [f"{c.lake} AS value_{place}" for place, c in enumerate(shape.columns)],
    )
    found: dict[Key, list[Sequence[str | None]]] = {}
    for row in rows.collect():
        found.setdefault(tuple(row[:count]), []).append(tuple(row[count:]))
    return found


def require_replaceable(
    spark: SparkSession, shape: TableShape, table: DataFrame, lsn: str, keys: Sequence[Key]
) -> None:
    """Require that events can replace the rows with some keys, deleted ones included.

    Args:
        table: that of a cut, without the log's tail.
        lsn: closed LSN of that cut.

    Raises:
        NotProvable: a row has a later position than the cut, so the sink drops every event of it.
    """
    end = ChangePosition.end_of(Lsn.parse(lsn)).to_bytes().hex()
    later = table.where(f"{POSITION} > X'{end}'")
    count = _with_keys(spark, _held_shape(shape, table), later, keys, []).count()
    if count:
        raise NotProvable(
            f"table {shape.table}: {count:,} rows have a later {POSITION} in the lake than its cut"
            f" at LSN {lsn}, so the sink takes each event of them for an older one and drops it."
            f" Fix: tailrace snapshot {shape.table.in_database}"
        )


def _with_keys(
    spark: SparkSession,
    shape: TableShape,
    rows: DataFrame,
    keys: Sequence[Key],
    values: Sequence[str],
) -> DataFrame:
    """Select the rows with some keys: their keys and some expressions."""
    names = key_names(shape)
    wanted = StructType([StructField(name, StringType()) for name in names])
    asked = spark.createDataFrame([tuple(key) for key in keys], wanted)
    keyed = [f"{c.lake} AS {name}" for c, name in zip(shape.key, names, strict=True)]
    found = rows.selectExpr(*keyed, *values)
    same = [asked[name].eqNullSafe(found[name]) for name in names]
    return found.join(broadcast(asked), same, "left_semi")


def _keyed(rows: DataFrame, shape: TableShape) -> DataFrame:
    """Return key, hash and number of rows; a mirror has one row for each key."""
    names = key_names(shape)
    hashed = rows.selectExpr(
        *(f"{column.lake} AS {name}" for column, name in zip(shape.key, names, strict=True)),
        f"{lake_row(shape.columns)} AS {_LAKE_HASH}",
    )
    return hashed.groupBy(*names).agg(
        first(_LAKE_HASH).alias(_LAKE_HASH), count(lit(1)).alias(_LAKE_COUNT)
    )


def _counted(rows: DataFrame, shape: TableShape) -> DataFrame:
    """Return hashes and how often each is there, from every change of a keyless table.

    Raises:
        NotProvable: an update has no old row, and the delete of a large value no value.
    """
    kinds = {row[0] for row in rows.select(OPERATION).distinct().collect()}
    reason = None
    if "u" in kinds:
        reason = "updates of it are in the lake without their old rows"
    elif "d" in kinds and shape.has_large:
        reason = "its deleted rows are in the lake without their large values"
    if reason is not None:
        raise NotProvable(
            f"table {shape.table} has no key, and {reason}, so its rows cannot be counted. Fix:"
            " give it a primary key, or set message_keys"
        )
    return (
        rows.selectExpr(
            f"{lake_row(shape.columns)} AS {_LAKE_HASH}",
            f"{_ONE} AS one",
        )
        .groupBy(_LAKE_HASH)
        .agg(total("one").alias(_LAKE_COUNT))
        .where(f"{_LAKE_COUNT} <> 0")
    )
