"""What only Delta's own classes tell of a table, and files beside it.

``DeltaLog.update().version()`` costs 10 ms for a table that the session knows, ``history(1)`` half
a second (measured), and there is no other public way to a table's version from Python.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from tailrace_sink.delta import public_reads as delta_public
from tailrace_sink.delta.classes import has_delta_log, log_of


@dataclass(frozen=True, slots=True)
class TableMetadata:
    """The current metadata of a Delta table.

    Attributes:
        version: version of the table.
        schema: its columns with their comments.
        properties: table properties.
    """

    version: int
    schema: StructType
    properties: dict[str, str]


def table_version(spark: SparkSession, path: str) -> int:
    """The current version of the Delta table at a path; -1 when there is none."""
    if not has_delta_log(spark):
        return delta_public.version_of(spark, path)
    return int(current_snapshot(spark, path).version())


def table_id(spark: SparkSession, path: str) -> str:
    """Delta's own id of the table at a path."""
    return str(current_snapshot(spark, path).metadata().id())


def table_metadata(
    spark: SparkSession, path: str, at_version: int | None = None
) -> TableMetadata | None:
    """The metadata of the Delta table at a path, now or at a version; None when there is none.

    Raises:
        PropertiesUnknown: in a session that has only public statements, of some older versions.
    """
    if not has_delta_log(spark):
        return _public_metadata(spark, path, at_version)
    snapshot = current_snapshot(spark, path)
    version = int(snapshot.version())
    if version < 0:
        return None
    if at_version is not None and at_version != version:
        classes, log = log_of(spark, path)
        none = classes.none
        # The last argument: not by the age of the version, which cuts name for longer.
        snapshot, version = log.getSnapshotAt(at_version, none, none, False), at_version
    metadata = snapshot.metadata()
    configuration = metadata.configuration()
    keys = [str(key) for key in configuration.keySet().mkString("\n").split("\n") if key]
    return TableMetadata(
        version=version,
        schema=schema_of(snapshot),
        properties={key: str(configuration.apply(key)) for key in keys},
    )


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
    """The columns of a version of a table, with their metadata."""
    return StructType.fromJson(json.loads(snapshot.metadata().schema().json()))


def table_bytes(spark: SparkSession, path: str) -> int:
    """Bytes of the files of the Delta table at a path, by its log; 0 when there is none."""
    snapshot = current_snapshot(spark, path)
    if int(snapshot.version()) < 0:
        return 0
    return bytes_of(snapshot)


def bytes_of(snapshot: Any) -> int:
    """Bytes of the files of a version of a table."""
    known = snapshot.checksumOpt()
    # The version's checksum file has it; else Delta reads all of its log, which takes a job.
    return int(known.get().tableSizeBytes() if known.isDefined() else snapshot.sizeInBytes())


def file_sizes(spark: SparkSession, path: str, below: int) -> list[int]:
    """Sizes in bytes of the files of a Delta table that are smaller than some bytes."""
    files = DataFrame(current_snapshot(spark, path).allFiles().toDF(), spark)
    return [row["size"] for row in files.where(f"size < {below}").select("size").collect()]


def files_with(rows: DataFrame) -> tuple[Any, Any]:
    """The snapshot and the files that a filtered read of one Delta table would look at.

    Args:
        rows: ``spark.read.format("delta")`` with a filter that Delta compares with statistics.

    Returns:
        Delta's own objects, for :func:`frame_of`.
    """
    plan = rows._jdf.queryExecution().optimizedPlan()  # noqa: SLF001 - as below
    scan = plan.collectLeaves().head().relation().location().preparedScan()
    return scan.scannedSnapshot(), scan.files()


def frame_of(spark: SparkSession, path: str, files: tuple[Any, Any]) -> DataFrame:
    """Some files of a Delta table, whole, as a DataFrame of a session.

    Args:
        spark: whose settings hold.
        path: of the table.
        files: as :func:`files_with` found them.
    """
    classes, log = log_of(spark, path)
    classes.session.setActiveSession(spark._jsparkSession)  # noqa: SLF001 - as below
    return DataFrame(log.createDataFrame(*files, False, classes.none), spark)


def read_text(spark: SparkSession, table: str, path: str) -> str | None:
    """A small text file beside a table, or None when there is none.

    Args:
        spark: any session.
        table: path of a Delta table on the same storage, whose way of access is taken.
        path: the file.
    """
    if not has_delta_log(spark):
        return delta_public.text_of(spark, path)
    classes, log = log_of(spark, table)
    settings, file = log.newDeltaHadoopConf(), classes.path(path)
    if not file.getFileSystem(settings).exists(file):
        return None
    return str(log.store().read(file, settings).mkString("\n"))


def write_text(spark: SparkSession, table: str, path: str, text: str) -> None:
    """Write such a file in place of what is there: readers find the old one or the new one whole.

    Delta's log store knows how, on every storage: its own pointer to the last checkpoint is written
    in this way.
    """
    classes, log = log_of(spark, table)
    lines, file = classes.iterator.single(text), classes.path(path)
    settings = log.newDeltaHadoopConf()
    file.getFileSystem(settings).mkdirs(file.getParent())
    log.store().write(file, lines, True, settings)


def current_snapshot(spark: SparkSession, path: str) -> Any:
    """Delta's own object for the current version of the table at a path."""
    classes, log = log_of(spark, path)
    return log.update(False, classes.none, classes.none)


def transaction_version(spark: SparkSession, path: str, app_id: str) -> int | None:
    """The newest transaction version that an application wrote into the Delta table at a path.

    None when it wrote none, or when there is no table. Delta refuses a write whose version is not
    greater, and one that began before another write of the same application was committed.
    """
    snapshot = current_snapshot(spark, path)
    return None if int(snapshot.version()) < 0 else version_of(snapshot, app_id)


def version_of(snapshot: Any, app_id: str) -> int | None:
    """The newest transaction version of an application in a version of a table."""
    known = snapshot.checksumOpt()
    if known.isDefined() and known.get().setTransactions().isDefined():
        listed = known.get().setTransactions().get()
        every = (listed.apply(index) for index in range(listed.size()))
        return next((int(one.version()) for one in every if one.appId() == app_id), None)
    # Of a version without a checksum file Delta reads all of its log, which takes a job.
    found = snapshot.transactions().get(app_id)
    return int(found.get()) if found.isDefined() else None


def delete_file(spark: SparkSession, table: str, path: str) -> None:
    """Delete a small file beside a table, where there is one."""
    _delete(spark, table, path, is_folder=False)


def delete_folder(spark: SparkSession, table: str, path: str) -> None:
    """Delete a folder beside a table with everything in it, where there is one."""
    _delete(spark, table, path, is_folder=True)


def _delete(spark: SparkSession, table: str, path: str, *, is_folder: bool) -> None:
    classes, log = log_of(spark, table)
    found = classes.path(path)
    found.getFileSystem(log.newDeltaHadoopConf()).delete(found, is_folder)


def folders(spark: SparkSession, path: str) -> list[str]:
    """Names of the folders in a table's: of a partitioned one those of its partitions, too."""
    classes, log = log_of(spark, path)
    root = classes.path(path)
    listed = root.getFileSystem(log.newDeltaHadoopConf()).listStatus(root)
    return [str(entry.getPath().getName()) for entry in listed if entry.isDirectory()]
