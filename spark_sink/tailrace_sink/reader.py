"""Reading a cut: all lake tables as they stood at one LSN of the source.

Whoever reads the bare tables may see two cuts for the seconds in which a batch is applied; whoever
reads the versions that a commit row names sees one.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from pyspark.sql import Column, DataFrame, SparkSession, Window
from pyspark.sql import functions as F  # noqa: N812 - PySpark's own convention

from tailrace_schemas.names import unescape
from tailrace_schemas.topics import TableName
from tailrace_sink.delta_log import table_version
from tailrace_sink.errors import SinkError
from tailrace_sink.lake_table import (
    COMMIT_TIME,
    LSN,
    OPERATION,
    POSITION,
    literal,
    quote,
    table_path,
)

_REFUSES_OLD_VERSIONS: Final = (
    "spark.databricks.delta.vacuum.enforceTimeTravelWithinDeletedFileRetentionDuration"
)
_SETTING_LOCK: Final = threading.Lock()


class CutUnknown(SinkError):
    """The lake has no cut at or before the LSN that was asked for, or not the table."""


@dataclass(frozen=True, slots=True)
class Cut:
    """One commit row: the lake at one LSN of the source.

    Attributes:
        batch: batch id.
        closed_lsn: every change up to this LSN is in, none after it.
        closed_commit_time: when the source committed that LSN (naive, in the process's zone, as
            PySpark gives timestamps); None when the source has committed nothing yet.
        versions: table path below the lake to its version.
    """

    spark: SparkSession
    lake: str
    batch: int
    closed_lsn: str
    closed_commit_time: datetime | None
    versions: dict[str, int]

    @property
    def tables(self) -> list[TableName]:
        """The tables in the cut, append-only companions left out."""
        paths = [path for path in self.versions if not path.endswith(".changes")]
        return sorted(TableName(*map(unescape, path.split("/"))) for path in paths)

    def read(self, table: TableName, *, is_changes: bool = False) -> DataFrame:
        """One table in this cut.

        Args:
            table: the source table.
            is_changes: its append-only companion instead.

        Raises:
            CutUnknown: the table is not in this cut.
        """
        path = table_path(table, is_changes=is_changes)
        version = self.versions.get(path)
        if version is None:
            raise CutUnknown(
                f"table {table} is not in the cut at LSN {self.closed_lsn}: its snapshot was not"
                " finished, the sink or the publisher stopped it, it is excluded, or it has no"
                " changes yet"
            )
        # Without a version Delta reads the one that is current when the DataFrame is run, not when
        # it was made. The current version costs nothing, an older one 0.3 s to rebuild (measured).
        reader = self.spark.read.format("delta").option("versionAsOf", version)
        with _time_travel_by_cuts(self.spark):
            return reader.load(f"{self.lake}/{path}")


@contextmanager
def _time_travel_by_cuts(spark: SparkSession) -> Iterator[None]:
    """Let a version be read that is older than the tables' deleted-file retention.

    Delta refuses it by the age of its commit, though its files are kept for that long since they
    were replaced: a table that had been quiet would lose its cuts with its next change. What a
    commit row names is within the retention. Delta looks once, when a DataFrame is made; it must
    belong to the caller's session, whose setting is therefore put back.
    """
    with _SETTING_LOCK:
        before = spark.conf.get(_REFUSES_OLD_VERSIONS, None)
        spark.conf.set(_REFUSES_OLD_VERSIONS, "false")
        try:
            yield
        finally:
            if before is None:
                spark.conf.unset(_REFUSES_OLD_VERSIONS)
            else:
                spark.conf.set(_REFUSES_OLD_VERSIONS, before)


def read_cut(spark: SparkSession, lake: str, *, up_to_lsn: str | None = None) -> Cut:
    """The newest cut, or the newest at or before an LSN.

    Args:
        spark: a session with Delta.
        lake: the lake's address, as in the sink's configuration.
        up_to_lsn: text form; None takes the newest cut.

    Raises:
        CutUnknown: there is none.
    """
    lake = lake.rstrip("/")
    path = f"{lake}/_tailrace/commits"
    if table_version(spark, path) < 0:
        raise CutUnknown(f"{lake} is not a lake of Tailrace: it has no commit table at {path}")
    commits = spark.read.format("delta").load(path)
    if up_to_lsn is not None:
        commits = commits.where(f"through_lsn <= {literal(up_to_lsn)}")
    row = commits.orderBy(commits["batch"].desc()).first()
    if row is None:
        at = "" if up_to_lsn is None else f" at or before LSN {up_to_lsn}"
        raise CutUnknown(f"lake {lake} has no cut{at}")
    return Cut(
        spark=spark,
        lake=lake,
        batch=row["batch"],
        closed_lsn=row["through_lsn"],
        closed_commit_time=row["through_commit_time"],
        versions=dict(row["tables"]),
    )


def history(changes: DataFrame, key: list[str]) -> DataFrame:
    """Validity intervals (SCD type 2) over an append-only table.

    Args:
        changes: rows of a ``.changes`` table.
        key: names of its key columns.

    Returns:
        The rows with ``_cdc_valid_from_lsn``, ``_cdc_valid_to_lsn``, ``_cdc_valid_from`` and
        ``_cdc_valid_to``; the last two are commit times, open ends are NULL. Deletes end an
        interval and are no rows themselves.
    """

    def following(name: str) -> Column:
        window = Window.partitionBy(*map(quote, key)).orderBy(F.col(POSITION).asc())
        return F.lead(name).over(window)

    return (
        changes.withColumn("_cdc_valid_from_lsn", F.col(LSN))
        .withColumn("_cdc_valid_to_lsn", following(LSN))
        .withColumn("_cdc_valid_from", F.col(COMMIT_TIME))
        .withColumn("_cdc_valid_to", following(COMMIT_TIME))
        .where(F.col(OPERATION) != "d")
    )
