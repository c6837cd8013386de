"""Iceberg's Java classes of files and commits, and Java's own that they take. All are public."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from tailrace_sink.spark.long_sequences import LongSequences


@dataclass(frozen=True, slots=True)
class FileClasses:
    """The classes, looked up once: Py4J searches all jars for each part of a name."""

    blob: Any
    blob_types: Any
    collections: Any
    columns: Any
    data_files: Any
    delete_files: Any
    deletes: Any
    expressions: Any
    index: Any
    iterable: Any
    longs: LongSequences
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
        collections=jvm.scala.jdk.javaapi.CollectionConverters,
        columns=iceberg.MetadataColumns,
        data_files=iceberg.DataFiles,
        delete_files=iceberg.FileMetadata,
        deletes=iceberg.deletes.Deletes,
        expressions=iceberg.expressions.Expressions,
        index=iceberg.deletes.PositionDeleteIndex,
        iterable=iceberg.io.CloseableIterable,
        longs=LongSequences.of(jvm),
        metrics=iceberg.MetricsConfig,
        names=iceberg.avro.AvroSchemaUtil.makeCompatibleName,
        parquet=iceberg.parquet.ParquetUtil,
        puffin=iceberg.puffin.Puffin,
    )
