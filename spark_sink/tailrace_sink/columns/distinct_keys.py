"""The keys of the rows of some Parquet files, read without a Spark job."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import pyarrow as pa
import pyarrow.parquet as pq

from tailrace_sink.columns.task_files import file_system

_BYTES_MAX: Final = 128 * 1024 * 1024
"""Bytes of keys that are compared in memory, which takes some times as much."""


def keys_in(
    folder: str, names: Sequence[str], key: Sequence[str], s3: Mapping[str, Any] | None
) -> pa.Table | None:
    """Read the keys of all rows into memory.

    Args:
        names: of the files in the folder.
        key: names of the columns in Parquet.
        s3: arguments of ``pyarrow.fs.S3FileSystem``; None: a local folder.

    Returns:
        None if there is no file, or if the keys cannot be read or are too large.
    """
    system = file_system(s3)
    parts, size = [], 0
    for name in names:
        try:
            with system.open_input_file(f"{folder}/{name}") as file:
                part = pq.ParquetFile(file).read(columns=list(key), use_threads=False)
        except (OSError, pa.ArrowException):  # Spark reads it then, and reports what is wrong.
            return None
        size += part.nbytes
        if size > _BYTES_MAX:
            return None
        parts.append(part.select(list(key)))
    return pa.concat_tables(parts) if parts else None


def are_distinct(keys: pa.Table) -> bool:
    """Whether no two rows have the same key."""
    groups = keys.group_by(keys.column_names, use_threads=False).aggregate([])
    return bool(groups.num_rows == keys.num_rows)
