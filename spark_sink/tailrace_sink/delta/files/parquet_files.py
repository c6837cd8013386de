"""Parquet files that Delta's own writer did not write, as entries of a table's log.

Source: Delta's protocol: "Add File and Remove File", "Column Mapping", "Per-file statistics".
"""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from pyspark.sql.types import StructType

_MAPPED_NAME: Final = "delta.columnMapping.physicalName"
_MAPPED_ID: Final = "delta.columnMapping.id"
_CONSTRAINT: Final = "delta.constraints."
_COMPUTED: Final = ("delta.generationExpression", "delta.identity.", "delta.invariants")
_INDEXED: Final = "delta.dataSkippingNumIndexedCols"
_INDEXED_BY_NAME: Final = "delta.dataSkippingStatsColumns"
_INDEXED_COLUMNS: Final = 32
"""Delta's default."""


@dataclass(frozen=True, slots=True)
class FileForm:
    """How a table's files must look.

    Attributes:
        types: Spark SQL type of each column, in upper case.
        physical: name and id of each column in Parquet; no id if the table does not map columns.
        indexed: columns, from the first on, that get statistics.
    """

    types: Mapping[str, str]
    physical: Mapping[str, tuple[str, int | None]]
    indexed: int


@dataclass(frozen=True, slots=True)
class ParquetFile:
    """A file in a table's folder; ``statistics`` is Delta's JSON."""

    name: str
    bytes: int
    statistics: str

    @property
    def entry(self) -> str:
        """Its entry of the log, as JSON."""
        return json.dumps(
            {
                "add": {
                    "path": self.name,
                    "partitionValues": {},
                    "size": self.bytes,
                    "modificationTime": round(time.time() * 1000),
                    "dataChange": True,
                    "stats": self.statistics,
                }
            }
        )


def file_form(snapshot: Any) -> FileForm | None:
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
    return FileForm(
        {column.name: column.dataType.simpleString().upper() for column in columns},
        {
            column.name: (
                column.metadata.get(_MAPPED_NAME, column.name),
                column.metadata.get(_MAPPED_ID),
            )
            for column in columns
        },
        len(columns) if {_INDEXED, _INDEXED_BY_NAME} & set(properties) else _INDEXED_COLUMNS,
    )
