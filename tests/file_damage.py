"""Damage to the files of one lake table, on disk or in a store."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Final

from pyarrow.fs import FileSelector, FileSystem, FileType
from pyspark.sql import SparkSession

from tailrace_sink.iceberg.new_table import DATA_PROPERTY

_JSON: Final = r"/_delta_log/\d{20}\.json$"
_CHECKPOINT: Final = r"/_delta_log/(\d{20})\.checkpoint.*\.parquet$"


@dataclass(frozen=True)
class TableFiles:
    """The files of a table, oldest first.

    Attributes:
        folders: that have them, each with its bucket.
    """

    store: FileSystem
    folders: tuple[str, ...]

    def matching(self, pattern: str) -> list[str]:
        selectors = (FileSelector(folder, recursive=True) for folder in self.folders)
        listed = [of for selector in selectors for of in self.store.get_file_info(selector)]
        files = [of for of in listed if of.type == FileType.File]
        self._forget_checksums([of.path for of in files])
        found = [of for of in files if re.search(pattern, of.path)]
        return [of.path for of in sorted(found, key=lambda of: (of.mtime_ns or 0, of.path))]

    def _forget_checksums(self, paths: list[str]) -> None:
        """Delete those that Hadoop writes next to a file on disk: a store has none."""
        for path in paths:
            if PurePosixPath(path).name.startswith(".") and path.endswith(".crc"):
                self.store.delete_file(path)

    def read(self, path: str) -> bytes:
        with self.store.open_input_file(path) as file:
            return bytes(file.read())

    def write(self, path: str, content: bytes) -> None:
        with self.store.open_output_stream(path) as file:
            file.write(content)


def folders_of(spark: SparkSession, table: str) -> tuple[str, ...]:
    """The folders of an Iceberg table in its store: of its metadata, and of its data."""
    described = spark.sql(f"DESCRIBE TABLE EXTENDED {table}")
    (row,) = described.where("col_name = 'Location'").collect()
    properties = spark.sql(f"SHOW TBLPROPERTIES {table} ('{DATA_PROPERTY}')").collect()
    found = (str(row["data_type"]), str(properties[0]["value"]))
    return tuple(re.sub(r"^s3a?://", "", address).rstrip("/") for address in found)


Strike = Callable[[TableFiles, str], None]


def missing(files: TableFiles, path: str) -> None:
    files.store.delete_file(path)


def truncated(files: TableFiles, path: str) -> None:
    content = files.read(path)
    files.write(path, content[: len(content) // 2])


def flipped(files: TableFiles, path: str) -> None:
    """Invert the bits of some bytes: the head of the pages of a data file, the end of a vector."""
    content = bytearray(files.read(path))
    some = range(4, min(200, len(content)))
    if not path.endswith(".parquet"):
        some = range(len(content) - 6, len(content) - 4)
    for at in some:
        content[at] ^= 0xFF
    files.write(path, bytes(content))


def newest(pattern: str, strike: Strike) -> Callable[[TableFiles], None]:
    """Damage the newest of the files that match."""

    def damage(files: TableFiles) -> None:
        strike(files, files.matching(pattern)[-1])

    return damage


def log_file_missing(files: TableFiles) -> None:
    """Remove a JSON of Delta's log that no checkpoint has; it is not the newest one."""
    numbers = [
        int(found[1]) for of in files.matching(_CHECKPOINT) if (found := re.search(_CHECKPOINT, of))
    ]
    later = [
        of
        for of in sorted(files.matching(_JSON))
        if int(PurePosixPath(of).stem) > max(numbers, default=0)
    ]
    files.store.delete_file(later[len(later) // 2 - 1])


OF_DELTA: Final[dict[str, Callable[[TableFiles], None]]] = {
    "data_file_missing": newest(r"/part-[^/]*\.parquet$", missing),
    "data_file_truncated": newest(r"/part-[^/]*\.parquet$", truncated),
    "data_file_flipped": newest(r"/part-[^/]*\.parquet$", flipped),
    "vector_missing": newest(r"/deletion_vector_[^/]*\.bin$", missing),
    "vector_truncated": newest(r"/deletion_vector_[^/]*\.bin$", truncated),
    "vector_flipped": newest(r"/deletion_vector_[^/]*\.bin$", flipped),
    "log_file_missing": log_file_missing,
    "log_file_truncated": newest(_JSON, truncated),
    "checkpoint_truncated": newest(_CHECKPOINT, truncated),
}
OF_ICEBERG: Final[dict[str, Callable[[TableFiles], None]]] = {
    "data_file_missing": newest(r"\.parquet$", missing),
    "data_file_truncated": newest(r"\.parquet$", truncated),
    "data_file_flipped": newest(r"\.parquet$", flipped),
    "vector_missing": newest(r"\.puffin$", missing),
    "vector_truncated": newest(r"\.puffin$", truncated),
    "vector_flipped": newest(r"\.puffin$", flipped),
    "manifest_missing": newest(r"/metadata/.*-m\d+\.avro$", missing),
    "manifest_truncated": newest(r"/metadata/.*-m\d+\.avro$", truncated),
    "manifest_list_missing": newest(r"/metadata/snap-.*\.avro$", missing),
    "manifest_list_truncated": newest(r"/metadata/snap-.*\.avro$", truncated),
    "metadata_missing": newest(r"\.metadata\.json$", missing),
    "metadata_truncated": newest(r"\.metadata\.json$", truncated),
}
