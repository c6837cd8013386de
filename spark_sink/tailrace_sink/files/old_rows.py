"""The old rows of changed keys in a lake table, which an upsert replaces."""

from __future__ import annotations

from array import array
from dataclasses import dataclass
from typing import Final

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 - PySpark's own convention

from tailrace_sink.files.key_match import FILE, ROW, listed_condition, matches
from tailrace_sink.ports.writes import Latest
from tailrace_sink.rows.mirror_statements import same_key
from tailrace_sink.tables.key_bounds import conditions_of
from tailrace_sink.tables.lake_table import POSITION, LakeTable, quote

LISTED_BYTES_MAX: Final = 4 * 1024 * 1024
"""Bytes of a table in which rows are found by a list of keys. A larger one is read by generated
code, which Spark would compile again for every list."""


@dataclass(frozen=True, slots=True)
class OldRows:
    """The places of rows with the changes' keys.

    Attributes:
        rows: file (``FILE``) to indexes of rows in it.
        has_newer: whether any row is as new as its change, or newer.
    """

    rows: dict[str, array[int]]
    has_newer: bool


def listed_keys(latest: Latest, table: LakeTable, size: int) -> str | None:
    """Return the changes' keys as a condition; None if they are compared by a join.

    Args:
        size: bytes of the table.
    """
    if latest.local is None or size > LISTED_BYTES_MAX:
        return None
    return listed_condition(latest.local, table)


def find_old_rows(
    rows: DataFrame, table: LakeTable, latest: Latest, listed: str | None, file: str, row: str
) -> OldRows:
    """Read keys and positions of rows that may have any of the keys.

    Args:
        listed: the keys as a condition; None: they are joined.
        file: expression of the file that a row is in.
        row: expression of its index there.

    Raises:
        PySparkException, Py4JError: Spark failed.
    """
    there = rows.selectExpr(
        *map(quote, table.key), POSITION, f"{file} AS {FILE}", f"{row} AS {ROW}"
    ).alias("t")
    for condition in conditions_of(latest.bounds):
        there = there.where(condition)
    if listed is not None and latest.local is not None:
        return OldRows(*matches(_read(there.where(listed)), latest.local, table))
    matched = there.join(few(latest).alias("s"), F.expr(" AND ".join(same_key(table, "t", "s"))))
    is_newer = f"t.{POSITION} IS NULL OR s.{POSITION} > t.{POSITION}"
    found = _read(
        matched.groupBy(FILE).agg(
            F.collect_list(ROW).alias("rows"), F.expr(f"bool_and({is_newer})").alias("newer")
        )
    )
    names, rows_of, are_newer = (found[name] for name in (FILE, "rows", "newer"))
    return OldRows(
        {
            str(name): array("q", rows.values.to_numpy(zero_copy_only=False).tobytes())
            for name, rows in zip(names.to_pylist(), rows_of, strict=True)
        },
        not all(are_newer.to_pylist()),
    )


def few(latest: Latest) -> DataFrame:
    """Return the changes for a join, sent to all tasks if they are few."""
    return latest.rows if latest.local is None else F.broadcast(latest.rows)


def _read(rows: DataFrame) -> pa.Table:
    rows._jdf.queryExecution().executedPlan()  # noqa: SLF001 - planned here: it is noted as read
    return rows.toArrow()
