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
    collections: Any
    columns: Any
    data_files: Any
    delete_files: Any
    deletes: Any
    expressions: Any
    index: Any
    iterable: Any
    little_endian: Any
    long_buffer: Any
    metrics: Any
    names: Any
    parquet: Any
    puffin: Any
    sequence: Any


@lru_cache(maxsize=1)
def file_classes(jvm: Any) -> FileClasses:
    """Return the classes of a session's JVM."""
    iceberg, java = jvm.org.apache.iceberg, jvm.java.nio
    return FileClasses(
        blob=iceberg.puffin.Blob,
        blob_types=iceberg.puffin.StandardBlobTypes,
        byte_buffer=java.ByteBuffer,
        collections=jvm.scala.jdk.javaapi.CollectionConverters,
        columns=iceberg.MetadataColumns,
        data_files=iceberg.DataFiles,
        delete_files=iceberg.FileMetadata,
        deletes=iceberg.deletes.Deletes,
        expressions=iceberg.expressions.Expressions,
        index=iceberg.deletes.PositionDeleteIndex,
        iterable=iceberg.io.CloseableIterable,
        little_endian=java.ByteOrder.LITTLE_ENDIAN,
        long_buffer=java.LongBuffer,
        metrics=iceberg.MetricsConfig,
        names=iceberg.avro.AvroSchemaUtil.makeCompatibleName,
        parquet=iceberg.parquet.ParquetUtil,
        puffin=iceberg.puffin.Puffin,
        sequence=jvm.scala.collection.immutable.ArraySeq,
    )
