"""At the end of the demo: is the patch of the new column right, and does it lack nothing?

A patch is no change of the source, so no change row can be compared with it. Its event names the
LSN at which the row had these values. The source had there the image before the row's first change
after that LSN. Without such a change it is the row as it is.
"""

from __future__ import annotations

import json
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from tailrace_schemas.position.change_position import Operation
from tailrace_schemas.position.lsn import lsn_text

if TYPE_CHECKING:
    import pyodbc
    from pyspark.sql import SparkSession

    from tailrace_schemas.records.progress import Progress

_BEFORE: Final = (int(Operation.DELETE), int(Operation.UPDATE_BEFORE))


@dataclass(frozen=True, slots=True)
class PatchComparison:
    """The patch of a column against the source.

    Attributes:
        instance: the capture instance that has the column.
        others: further instances of the table, which should be gone.
        rows: how many rows were patched.
        differing: keys of those that differ from the source at the LSN of their event.
        missing: keys that have no change row with the column, and were not patched.
        whole_from: LSN from which the column is whole, by the topics.
        in_lake: the same by the lake's commit rows.
    """

    instance: str
    others: Collection[str]
    rows: int
    differing: Collection[int]
    missing: Collection[int]
    whole_from: str | None
    in_lake: str | None

    @property
    def equal(self) -> bool:
        """Whether the patch is right and whole, and topics and lake agree from when on."""
        return (
            not (self.others or self.differing or self.missing)
            and self.whole_from is not None
            and self.whole_from == self.in_lake
        )


def compare_patch(
    patches: Iterable[Mapping[str, Any]],
    rows: Mapping[int, Mapping[str, Any]],
    images: Mapping[int, list[tuple[str, Mapping[str, Any]]]],
    key: str,
) -> list[int]:
    """Return the keys of the patches that differ from the source at their LSNs.

    Args:
        rows: the source's rows by key.
        images: for each key that changed under the new instance, the commit LSN and the image
            before each of its changes, in order; None instead of an image for an insert.
    """
    differing = []
    for patch in patches:
        row, lsn = patch["after"], patch["source"]["commit_lsn"]
        later = images.get(row[key], [])
        after = bisect_right([changed for changed, _ in later], lsn)
        then = later[after][1] if after < len(later) else rows.get(row[key])
        if then is None or dict(row) != dict(then):
            differing.append(row[key])
    return differing


def check_patch(
    source: pyodbc.Connection,
    instances: list[str],
    patches: list[Mapping[str, Any]],
    filled: Collection[int],
    whole_from: tuple[str | None, str | None],
    table: tuple[str, str],
) -> PatchComparison:
    """Compare the patch of a table with the source, which nothing changes any more.

    Args:
        instances: the table's capture instances, the newest last.
        patches: envelopes of the patch's events.
        filled: keys of the rows that got the column's value with the column.
        whole_from: LSN from which the column is whole, by the topics and by the lake.
        table: its name, and its key.
    """
    *others, instance = instances
    name, key = table
    rows = {row[key]: row for row in _rows(source, f"SELECT * FROM dbo.[{name}]")}
    images: dict[int, list[tuple[str, Mapping[str, Any]]]] = defaultdict(list)
    for row in _rows(
        source,
        f"SELECT * FROM cdc.[{instance}_CT] WHERE [__$operation] IN {_BEFORE}"
        " ORDER BY [__$start_lsn], [__$command_id], [__$seqval]",
    ):
        image = {column: value for column, value in row.items() if not column.startswith("__$")}
        images[image[key]].append((lsn_text(row["__$start_lsn"]), image))
    patched = {patch["after"][key] for patch in patches}
    return PatchComparison(
        instance=instance,
        others=others,
        rows=len(patches),
        differing=compare_patch(patches, rows, images, key),
        missing=sorted(set(filled) - patched - images.keys()),
        whole_from=whole_from[0],
        in_lake=whole_from[1],
    )


def _rows(source: pyodbc.Connection, sql: str) -> list[dict[str, Any]]:
    cursor = source.execute(sql)
    names = [column[0] for column in cursor.description]
    return [dict(zip(names, row, strict=True)) for row in cursor.fetchall()]


def whole_in_topics(records: Iterable[Progress], topic: str, column: str) -> str | None:
    """Return the LSN from which a column is whole by the progress records."""
    return next(
        (
            record.closed_lsn
            for record in records
            for patched in record.patched
            if patched.topic == topic and column in patched.columns
        ),
        None,
    )


def whole_in_lake(spark: SparkSession, commits: str, path: str, column: str) -> str | None:
    """Return the LSN from which a column is whole by the lake's commit rows.

    Args:
        path: of the lake table, below the lake.
    """
    rows = spark.read.format("delta").load(commits).select("schema_changes").collect()
    changes = (change for row in rows for change in json.loads(row["schema_changes"] or "[]"))
    wanted = (path, column, "whole")
    return next(
        (
            str(change["becomes"])
            for change in changes
            if (change["table"], change["column"], change["change"]) == wanted
        ),
        None,
    )


def tell(found: PatchComparison, filled: int) -> list[str]:
    """What happened at noon, in plain lines."""
    if found.rows:
        patch = f"and re-read the rows with a gate: {found.rows:,} patched"
    else:
        patch = "and found no row to re-read"
    lines = [
        f"At noon flights got the column gate, and with it {filled:,} flights that had left: their"
        " gates are in no change table.",
        f"tailrace publish created the capture instance {found.instance}, dropped the older one,"
        f" {patch}. From LSN {found.whole_from} on, gate is whole in topics and lake.",
    ]
    if not found.equal:
        lines.append(f"The patch is wrong: {found}")
    return lines
