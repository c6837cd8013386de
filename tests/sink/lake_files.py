"""Looks at the files of a lake: how their columns are stored."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import pyarrow.parquet as pq
from pyarrow.fs import FileSelector, FileSystem


def int96_columns(folder: Path, files: Iterable[str] | None = None) -> dict[str, list[str]]:
    """Columns of Parquet files that are stored as INT96, by the file's path below a folder.

    Checkpoints of Delta's log are files of the lake too: their statistics have times.

    Args:
        files: only these, by their paths; None: all below the folder.
    """
    found: dict[str, list[str]] = {}
    for file in sorted(folder.rglob("*.parquet") if files is None else map(Path, files)):
        if names := _int96(pq.ParquetFile(file)):
            found[str(file.relative_to(folder))] = names
    return found


def int96_in_store(store: FileSystem, folder: str) -> tuple[int, dict[str, list[str]]]:
    """How many Parquet files are below a folder of a store, and their columns as of INT96."""
    listed = store.get_file_info(FileSelector(folder, recursive=True))
    paths = [of.path for of in listed if of.path.endswith(".parquet")]
    found = {path: _int96(pq.ParquetFile(path, filesystem=store)) for path in paths}
    return len(paths), {path: names for path, names in found.items() if names}


def _int96(file: pq.ParquetFile) -> list[str]:
    every = map(file.schema.column, range(len(file.schema)))
    return [column.path for column in every if column.physical_type == "INT96"]
