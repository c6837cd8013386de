"""Looks at the files of a lake on local disk: how their columns are stored."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import pyarrow.parquet as pq


def int96_columns(folder: Path, files: Iterable[str] | None = None) -> dict[str, list[str]]:
    """Columns of Parquet files that are stored as INT96, by the file's path below a folder.

    Checkpoints of Delta's log are files of the lake too: their statistics have times.

    Args:
        files: only these, by their paths; None: all below the folder.
    """
    found: dict[str, list[str]] = {}
    for file in sorted(folder.rglob("*.parquet") if files is None else map(Path, files)):
        columns = pq.ParquetFile(file).schema
        every = map(columns.column, range(len(columns)))
        names = [column.path for column in every if column.physical_type == "INT96"]
        if names:
            found[str(file.relative_to(folder))] = names
    return found
