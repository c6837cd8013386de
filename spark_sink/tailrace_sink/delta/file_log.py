"""Version, metadata and files of a Delta table by Delta's own classes, and files next to it.

Delta's log gives the version of a known table in some 10 ms. The only public way from Python,
``history(1)``, takes half a second (measured).
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from py4j.protocol import Py4JError
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from tailrace_sink.delta import public_reads as delta_public
from tailrace_sink.delta.classes import has_delta_log, log_of
from tailrace_sink.delta.commits import is_missing
from tailrace_sink.files.to_compact import DataFile
from tailrace_sink.spark.jvm_names import items_of


@dataclass(frozen=True, slots=True)
class TableMetadata:
    """The metadata of a version of a Delta table; ``schema`` has the columns' comments."""

    version: int
    schema: StructType
    properties: dict[str, str]


def table_version(spark: SparkSession, path: str) -> int:
    """Return the current version of the Delta table at a path; -1 if there is none."""
    if not has_delta_log(spark):
        return delta_public.version_of(spark, path)
    return int(current_snapshot(spark, path).version())


def table_id(spark: SparkSession, path: str) -> str:
    """Return Delta's id of the table at a path."""
    return str(current_snapshot(spark, path).metadata().id())


def table_metadata(
    spark: SparkSession, path: str, at_version: int | None = None
) -> TableMetadata | None:
    """Read the metadata of the Delta table at a path, now or at a version; None if there is none.

    Raises:
        PropertiesUnknown: in a session with public statements only, for some older versions.
    """
    if not has_delta_log(spark):
        return _public_metadata(spark, path, at_version)
    snapshot = current_snapshot(spark, path)
    version = int(snapshot.version())
    if version < 0:
        return None
    if at_version is not None and at_version != version:
        snapshot, version = _snapshot_at(spark, path, at_version), at_version
    metadata = snapshot.metadata()
    configuration = metadata.configuration()
    keys = [str(key) for key in configuration.keySet().mkString("\n").split("\n") if key]
    return TableMetadata(
        version=version,
        schema=schema_of(snapshot),
        properties={key: str(configuration.apply(key)) for key in keys},
    )


def _snapshot_at(spark: SparkSession, path: str, version: int) -> Any:
    """Return Delta's object of a version, also of one older than the deleted-file retention."""
    classes, log = log_of(spark, path)
    none = classes.none
    try:
        return log.getSnapshotAt(version, none, none, False)
    except Py4JError as error:
        if not is_missing(error):
            raise
        return log.getSnapshotAt(version, none, none)  # Delta 4.0, which does not look at the age


def _public_metadata(
    spark: SparkSession, path: str, at_version: int | None
) -> TableMetadata | None:
    version = delta_public.version_of(spark, path) if at_version is None else at_version
    if version < 0:
        return None
    return TableMetadata(
        version=version,
        schema=delta_public.schema_of(spark, path, version),
        properties=delta_public.properties_of(spark, path, version),
    )


def schema_of(snapshot: Any) -> StructType:
    """Return the columns of a version of a table, with their metadata."""
    return StructType.fromJson(json.loads(snapshot.metadata().schema().json()))


def partition_columns(snapshot: Any) -> list[str]:
    """Return the columns by which a version of a table is partitioned."""
    names = snapshot.metadata().partitionColumns()
    return [str(names.apply(index)) for index in range(names.size())]


def table_bytes(spark: SparkSession, path: str) -> int:
    """Return the bytes of the files of the Delta table at a path; 0 if there is none."""
    snapshot = current_snapshot(spark, path)
    if int(snapshot.version()) < 0:
        return 0
    return bytes_of(snapshot)


def bytes_of(snapshot: Any) -> int:
    """Return the bytes of the files of a version of a table."""
    known = snapshot.checksumOpt()
    # Without the version's checksum file Delta reads its whole log, which takes a job.
    return int(known.get().tableSizeBytes() if known.isDefined() else snapshot.sizeInBytes())


def file_sizes(spark: SparkSession, path: str, below: int) -> list[int]:
    """Return the sizes of the files of a Delta table that are smaller than some bytes."""
    return [file.bytes for file in files_to_compact(spark, path, below, 1.0)]


def files_to_compact(
    spark: SparkSession, path: str, below: int, deleted_above: float
) -> list[DataFile]:
    """Return the files of a Delta table that are small, or of which many rows are deleted."""
    files = DataFrame(current_snapshot(spark, path).allFiles().toDF(), spark)
    rows = "CAST(get_json_object(stats, '$.numRecords') AS DOUBLE)"
    shares = files.selectExpr(
        "size", f"coalesce(deletionVector.cardinality / nullif({rows}, 0D), 0D) AS deleted"
    )
    found = shares.where(f"size < {below} OR deleted > {deleted_above}").collect()
    return [DataFile(row["size"], row["deleted"]) for row in found]


def files_with(rows: DataFrame) -> tuple[Any, Any]:
    """Return the snapshot and the files that a filtered read of one Delta table would read.

    Args:
        rows: ``spark.read.format("delta")`` with a filter that Delta compares with statistics.

    Returns:
        Delta's own objects, for :func:`frame_of`.
    """
    plan = rows._jdf.queryExecution().optimizedPlan()  # noqa: SLF001 - as below
    scan = plan.collectLeaves().head().relation().location().preparedScan()
    return scan.scannedSnapshot(), scan.files()


def frame_of(spark: SparkSession, path: str, files: tuple[Any, Any]) -> DataFrame:
    """Read whole files of a Delta table as a DataFrame.

    Args:
        files: as returned by :func:`files_with`.
    """
    classes, log = log_of(spark, path)
    classes.session.setActiveSession(spark._jsparkSession)  # noqa: SLF001 - as below
    return DataFrame(log.createDataFrame(*files, False, classes.none), spark)


def read_text(spark: SparkSession, table: str, path: str) -> str | None:
    """Read a small text file; None if there is none.

    Args:
        table: path of a Delta table on the same storage, with whose settings the file is read.
    """
    if not has_delta_log(spark):
        return delta_public.text_of(spark, path)
    classes, log = log_of(spark, table)
    settings, file = log.newDeltaHadoopConf(), classes.path(path)
    if not file.getFileSystem(settings).exists(file):
        return None
    return str(log.store().read(file, settings).mkString("\n"))


def write_text(spark: SparkSession, table: str, path: str, text: str) -> None:
    """Replace such a file atomically: readers find either the old or the new one.

    Delta's log store does this on every storage; it writes its pointer to the last checkpoint in
    the same way.
    """
    classes, log = log_of(spark, table)
    lines, file = classes.iterator.single(text), classes.path(path)
    settings = log.newDeltaHadoopConf()
    file.getFileSystem(settings).mkdirs(file.getParent())
    log.store().write(file, lines, True, settings)


def current_snapshot(spark: SparkSession, path: str) -> Any:
    """Return Delta's object of the current version of the table at a path."""
    classes, log = log_of(spark, path)
    return log.update(False, classes.none, classes.none)


def listed_files(spark: SparkSession, path: str, snapshot: Any) -> list[Any] | None:
    """List all files of a version of a table; None if its checksum file does not list them."""
    classes, _ = log_of(spark, path)
    checksum = snapshot.checksumOpt()
    known = checksum.get().allFiles() if checksum.isDefined() else classes.none
    return items_of(classes.collections.asJava(known.get())) if known.isDefined() else None


def transaction_version(spark: SparkSession, path: str, app_id: str) -> int | None:
    """Return the newest transaction version of an application in the Delta table at a path.

    None if it wrote none, or if there is no table. Delta refuses a write whose version is not
    greater, and one that started before another write of the application was committed.
    """
    snapshot = current_snapshot(spark, path)
    return None if int(snapshot.version()) < 0 else version_of(snapshot, app_id)


def version_of(snapshot: Any, app_id: str) -> int | None:
    """Return the newest transaction version of an application in a version of a table."""
    known = snapshot.checksumOpt()
    if known.isDefined() and known.get().setTransactions().isDefined():
        listed = known.get().setTransactions().get()
        every = (listed.apply(index) for index in range(listed.size()))
        return next((int(one.version()) for one in every if one.appId() == app_id), None)
    # Without a checksum file Delta reads its whole log, which takes a job.
    found = snapshot.transactions().get(app_id)
    return int(found.get()) if found.isDefined() else None


def delete_file(spark: SparkSession, table: str, path: str) -> None:
    """Delete a small file on a table's storage, if it exists."""
    _delete(spark, table, path, is_folder=False)


def delete_folder(spark: SparkSession, table: str, path: str) -> None:
    """Delete a folder on a table's storage with everything in it, if it exists."""
    _delete(spark, table, path, is_folder=True)


def _delete(spark: SparkSession, table: str, path: str, *, is_folder: bool) -> None:
    classes, log = log_of(spark, table)
    found = classes.path(path)
    found.getFileSystem(log.newDeltaHadoopConf()).delete(found, is_folder)


def folders(spark: SparkSession, path: str) -> list[str]:
    """List the folders within that of a table, including its partitions."""
    classes, log = log_of(spark, path)
    root = classes.path(path)
    listed = root.getFileSystem(log.newDeltaHadoopConf()).listStatus(root)
    return [str(entry.getPath().getName()) for entry in listed if entry.isDirectory()]
