"""Maintenance of Iceberg tables between batches: small files, and what no kept cut needs.

A rewrite commits to the main branch, and the staging branch follows it. If a batch was staged there
meanwhile, by a newer sink, the branch stays: that sink's publication follows the rewrite.
One run is bounded, as the fold waits for it (``to_compact``).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final

import structlog
from py4j.protocol import Py4JError
from pyspark.sql import SparkSession

from tailrace_sink.files.to_compact import RUN_BYTES_MAX, DataFile, chosen
from tailrace_sink.iceberg.catalog import IcebergCatalog, Outcome, is_conflict
from tailrace_sink.iceberg.loaded_table import LoadedTable
from tailrace_sink.iceberg.names import BRANCH, MAIN
from tailrace_sink.iceberg.new_table import own_folder
from tailrace_sink.iceberg.tables import IcebergTables
from tailrace_sink.spark.jvm_errors import cause_classes, lacks_file

FILES_MIN: Final = 50
"""Files that a table has more than after its last rewrite, from which it is rewritten."""
ABANDONED_MS: Final = 24 * 3_600_000
"""Age from which a snapshot that was staged and never published is removed."""
_TARGET_PROPERTY: Final = "write.target-file-size-bytes"
_TARGET_BYTES: Final = 512 * 1024 * 1024
_SMALL_SHARE: Final = 0.75
"""Share of the target size below which a file is small.
See: Iceberg's Spark Procedures, "rewrite_data_files" (``min-file-size-bytes``), for both figures.
"""
_TOGETHER_MIN: Final = 5
"""Small files that Iceberg combines at least (``min-input-files``)."""
_UNBOUNDED: Final = 1 << 62
"""Size above which a file is split: none is, as that has no bound."""
_REWRITE: Final = "replace"
_COUNTED: Final = ("total-data-files", "total-delete-files")

_log = structlog.get_logger("tailrace.sink")


class Compaction:
    """Rewrites small files of a lake's tables, one table at a time.

    Args:
        cluster_by: returns the columns by which rows of the table at a path are sorted.
    """

    def __init__(
        self,
        spark: SparkSession,
        catalog: IcebergCatalog,
        tables: IcebergTables,
        cluster_by: Callable[[str], Sequence[str]],
        files_min: int = FILES_MIN,
    ) -> None:
        self._spark = spark
        self._catalog = catalog
        self._tables = tables
        self._cluster_by = cluster_by
        self._files_min = files_min
        self._written: dict[str, None] = {}
        self._left: dict[str, int] = {}

    def note(self, before: Mapping[str, int], after: Mapping[str, int]) -> None:
        """Record which tables a batch wrote."""
        for path, version in after.items():
            if before.get(path) != version:
                self._written[path] = None

    def run(self) -> str | None:
        """Look at the table that has waited longest, and rewrite its files if they are many.

        Returns:
            Path of the table that was looked at, or None.

        Raises:
            SinkError: Spark or the catalog failed. A conflict is left to the next run instead.
        """
        path = next(iter(self._written), None)
        if path is None:
            return None
        del self._written[path]
        table = self._tables.loaded(path)
        files = None if table is None else self._files(table)
        if table is None or files is None:
            return path
        if path not in self._left:
            self._left[path] = _files_after_rewrite(table)
        if files - self._left[path] < self._files_min:
            return path
        try:
            rewritten = rewrite(self._catalog, self._spark, table, self._cluster_by(path))
        except Py4JError as error:
            if not is_conflict(error):
                raise self._catalog.failure(f"compaction of table {path}", error) from error
            _log.info("compaction_deferred", table=path)
            return path
        now = self._tables.loaded(path)
        self._left[path] = 0 if now is None else self._files(now) or 0
        if rewritten:
            _log.info("lake_table_compacted", table=path, files=rewritten)
        return path

    def _files(self, table: LoadedTable) -> int | None:
        counts = [self._tables.total(table, name) for name in _COUNTED]
        known = [count for count in counts if count is not None]
        return sum(known) if len(known) == len(counts) else None


def rewrite(
    catalog: IcebergCatalog,
    spark: SparkSession,
    table: LoadedTable,
    cluster_by: Sequence[str] = (),
    bytes_max: int = RUN_BYTES_MAX,
) -> int:
    """Combine small files, and rewrite those with many deleted rows; return how many were.

    The sort order is not the table's: Iceberg 1.11 refuses all writes to a table whose present or
    former order has a removed column.

    Args:
        cluster_by: columns by which rows are sorted; those that the table lacks are left out.
        bytes_max: most bytes to rewrite, of small files and of files with deleted rows.

    Raises:
        Py4JError: Spark or the catalog failed, or somebody else committed.
    """
    before = table.head(MAIN)
    small_bytes = round(_SMALL_SHARE * int(table.property(_TARGET_PROPERTY) or _TARGET_BYTES))
    choice = chosen(_data_files(catalog, spark, table), small_bytes, _TOGETHER_MIN, bytes_max)
    if choice is None:
        return 0
    actions = catalog.jvm.spark.actions.SparkActions.get(spark._jsparkSession)  # noqa: SLF001
    action = actions.rewriteDataFiles(table.java)
    action = action.option("min-file-size-bytes", str(choice.below))
    action = action.option("max-file-size-bytes", str(_UNBOUNDED))
    action = action.option("delete-ratio-threshold", f"{choice.deleted_above:.12f}")
    schema = table.java.schema()
    columns = [column for column in cluster_by if schema.findField(column) is not None]
    if columns:
        order = catalog.jvm.SortOrder.builderFor(schema)
        for column in columns:
            order.asc(column)
        action = action.sort(order.build())
    done = action.execute()
    now = catalog.load(table.name)
    if now is None or now.head(MAIN) == before:
        return 0
    head = now.head(MAIN)
    if head is not None and now.head(BRANCH) == before:
        # Refused if the branch moves meanwhile.
        followed = catalog.commit_one(now.with_heads({BRANCH: head}))
        if followed.outcome is not Outcome.DONE:
            _log.info("branch_not_moved", table=str(table.name), reason=followed.reason)
    return int(done.rewrittenDataFilesCount())


def _data_files(catalog: IcebergCatalog, spark: SparkSession, table: LoadedTable) -> list[DataFile]:
    """Return the data files of the main branch, with the share of rows that vectors delete."""
    name = table.name.sql(catalog.name)
    found = spark.sql(
        f"SELECT f.file_size_in_bytes, coalesce(d.deleted / f.record_count, 0D) AS deleted"
        f" FROM {name}.data_files f LEFT JOIN (SELECT referenced_data_file AS path,"
        f" sum(record_count) AS deleted FROM {name}.delete_files GROUP BY 1) d"
        " ON d.path = f.file_path"
    )
    return [DataFile(int(row[0]), float(row[1])) for row in found.collect()]


def expire(table: LoadedTable, oldest: int) -> int:
    """Remove snapshots before that of the oldest kept cut, and the files that only they need.

    Those of other tags and branches stay, and the commits of these branches.
    See: Iceberg's Branching and Tagging; Iceberg refuses to expire the snapshot of a reference.

    Returns:
        Number of snapshots removed.

    Raises:
        Py4JError: the catalog or the store failed.
    """
    kept = table.java.snapshot(oldest)
    if kept is None:
        return 0
    published = {found.id for found in table.history(table.head(MAIN))}
    gone = [found.id for found in table.history(oldest) if found.id != oldest]
    referred = {table.head(MAIN), table.head(BRANCH)}
    for ref in dict(table.java.refs()).values():
        head = int(ref.snapshotId())
        own = {found.id for found in table.history(head)} - published if ref.isBranch() else ()
        referred |= {head, *own}
    since_ms = int(kept.timestampMillis()) - ABANDONED_MS
    staged = {found.id for found in table.history(table.head(BRANCH))}
    for snapshot in list(table.java.snapshots()):
        id_ = int(snapshot.snapshotId())
        if id_ not in published | staged and int(snapshot.timestampMillis()) < since_ms:
            gone.append(id_)
    gone = [id_ for id_ in dict.fromkeys(gone) if id_ not in referred]
    if not gone:
        return 0
    # By age alone, a snapshot would be lost that a quiet table still has in a kept cut.
    expired = table.java.expireSnapshots().expireOlderThan(0)
    for id_ in gone:
        expired = expired.expireSnapshotId(id_)
    expired.commit()
    return len(gone)


def remove_orphans(
    catalog: IcebergCatalog, spark: SparkSession, table: LoadedTable, before_ms: int
) -> int:
    """Remove data files that are in no snapshot, staged or published: of writes that failed.

    Args:
        before_ms: store's time of the newest file to remove; later ones may be of a running write.

    Returns:
        Number of files removed.

    Raises:
        Py4JError: the catalog or the store failed.
    """
    folder = own_folder(table)
    if folder is None:
        return 0
    actions = catalog.jvm.spark.actions.SparkActions.get(spark._jsparkSession)  # noqa: SLF001
    try:
        done = actions.deleteOrphanFiles(table.java).location(folder).olderThan(before_ms).execute()
    except Py4JError as error:
        if lacks_file(cause_classes(error)):
            return 0  # Nothing was written yet, so there is no folder.
        raise
    return len(list(done.orphanFileLocations()))


def _files_after_rewrite(table: LoadedTable) -> int:
    """Return how many files the table had after its last rewrite; 0 if it has had none."""
    for found in table.history(table.head(MAIN)):
        if found.operation == _REWRITE:
            summary = dict(table.java.snapshot(found.id).summary() or {})
            return sum(int(summary.get(name, 0)) for name in _COUNTED)
    return 0
