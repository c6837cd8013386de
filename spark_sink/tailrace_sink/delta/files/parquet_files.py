"""Delta's files as the sink compares them: how they must look, and which may have some keys.

Source: Delta's protocol: "Add File and Remove File", "Column Mapping", "Per-file statistics".
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterable, Sequence
from typing import Any, Final

from pyspark.sql.types import StructType

from tailrace_sink.files.parquet_files import FileForm, ParquetFile, key_bounds, statistics_of
from tailrace_sink.tables.key_bounds import KeyBound
from tailrace_sink.tables.lake_table import PHYSICAL_NAME, LakeTable

_MAPPED_ID: Final = "delta.columnMapping.id"
_CONSTRAINT: Final = "delta.constraints."
_COMPUTED: Final = ("delta.generationExpression", "delta.identity.", "delta.invariants")
_INDEXED: Final = "delta.dataSkippingNumIndexedCols"
_INDEXED_BY_NAME: Final = "delta.dataSkippingStatsColumns"
_INDEXED_COLUMNS: Final = 32
"""Delta's default."""


def files_meeting(
    files: Iterable[Any], bounds: Sequence[KeyBound], columns: StructType
) -> list[Any]:
    """Select the files that may have a key between some bounds; without bounds, all files."""
    if not bounds:
        return list(files)
    physical = physical_names(columns)
    meeting = []
    for file in files:
        lowest, highest, _ = statistics_of(file.stats())
        names = ((bound, physical[bound.column.name]) for bound in bounds)
        if all(bound.meets(lowest.get(name), highest.get(name)) for bound, name in names):
            meeting.append(file)
    return meeting


def bounds_of(files: Iterable[Any], table: LakeTable, columns: StructType) -> list[KeyBound]:
    """Compute the bounds of the keys in some files (:func:`key_bounds`)."""
    statistics = (statistics_of(file.stats()) for file in files)
    return key_bounds(statistics, table, physical_names(columns))


def physical_names(columns: StructType) -> dict[str, str]:
    """Return by name how columns are named in the files, which never changes."""
    return {field.name: field.metadata.get(PHYSICAL_NAME, field.name) for field in columns}


def file_form(snapshot: Any, location: str) -> FileForm | None:
    """Return how a table's files must look.

    None if its rows depend on more than the written values: partitions, constraints, computed
    columns, columns without NULL.
    """
    metadata = snapshot.metadata()
    properties = str(metadata.configuration().keySet().mkString("\n")).split("\n")
    if not metadata.partitionColumns().isEmpty():
        return None
    if any(name.startswith(_CONSTRAINT) for name in properties):
        return None
    columns = StructType.fromJson(json.loads(metadata.schemaString()))
    for column in columns:
        if not column.nullable or any(name.startswith(_COMPUTED) for name in column.metadata):
            return None
    physical = physical_names(columns)
    return FileForm(
        location,
        {column.name: column.dataType.simpleString().upper() for column in columns},
        {
            column.name: (physical[column.name], column.metadata.get(_MAPPED_ID))
            for column in columns
        },
        len(columns) if {_INDEXED, _INDEXED_BY_NAME} & set(properties) else _INDEXED_COLUMNS,
    )


def entry_of(file: ParquetFile) -> str:
    """Format a file as an entry of the log, as JSON."""
    return json.dumps(
        {
            "add": {
                "path": file.name,
                "partitionValues": {},
                "size": file.bytes,
                "modificationTime": round(time.time() * 1000),
                "dataChange": True,
                "stats": file.statistics,
            }
        }
    )
