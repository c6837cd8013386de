"""Iceberg's Java classes of files and commits, and Java's own that they take. All are public."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Any


@dataclass(frozen=True, slots=True)
class FileClasses:
    """The classes, looked up once: Py4J searches all jars for each part of a name."""

    blob: Any
    blob_types: Any
    byte_buffer: Any
    changes: Any
    columns: Any
    data_files: Any
    delete_files: Any
    expressions: Any
    in_memory: Any
    metrics: Any
    names: Any
    parquet: Any
    puffin: Any


@lru_cache(maxsize=1)
def file_classes(jvm: Any) -> FileClasses:
    """Return the classes of a session's JVM."""
    iceberg = jvm.org.apache.iceberg
    return FileClasses(
        blob=iceberg.puffin.Blob,
        blob_types=iceberg.puffin.StandardBlobTypes,
        byte_buffer=jvm.java.nio.ByteBuffer,
        changes=iceberg.SnapshotChanges,
        columns=iceberg.MetadataColumns,
        data_files=iceberg.DataFiles,
        delete_files=iceberg.FileMetadata,
        expressions=iceberg.expressions.Expressions,
        in_memory=iceberg.inmemory.InMemoryInputFile,
        metrics=iceberg.MetricsConfig,
        names=iceberg.avro.AvroSchemaUtil.makeCompatibleName,
        parquet=iceberg.parquet.ParquetUtil,
        puffin=iceberg.puffin.Puffin,
    )
