"""Writer schemas, stored in the lake as JSON files, so that readers of the log need no registry."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterable
from typing import Any

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from tailrace_service.registry.client import RegistryError
from tailrace_sink.delta.file_log import read_text, write_text
from tailrace_sink.errors import SchemaNotStored
from tailrace_sink.plan.progress_record import SchemaById
from tailrace_sink.spark.jvm_errors import translated


class SchemaStore:
    """The writer schemas of one lake; thread-safe.

    Args:
        table: path of a Delta table on the same storage.
        registry: looks up schemas that the lake lacks; None: only the lake is read.
    """

    def __init__(
        self, spark: SparkSession, table: str, folder: str, registry: SchemaById | None = None
    ) -> None:
        self._spark = spark
        self._table = table
        self._folder = folder
        self._registry = registry
        self._lock = threading.Lock()
        self._known: dict[int, dict[str, Any]] = {}

    @classmethod
    def of_lake(cls, spark: SparkSession, lake: str) -> SchemaStore:
        """Open those of a lake for a reader."""
        return cls(spark, f"{lake}/_tailrace/log", f"{lake}/_tailrace/schemas")

    def schema_by_id(self, schema_id: int) -> dict[str, Any]:
        """Return a writer schema from the lake, or from the registry and store it in the lake.

        Raises:
            SchemaNotStored: the lake lacks it, and no registry is configured.
            RegistryError: the registry lacks it, or does not answer.
        """
        with self._lock:
            found = self._known.get(schema_id)
            if found is None:
                found = self._known[schema_id] = self._look_up(schema_id)
            return found

    def keep(self, schema_ids: Iterable[int]) -> None:
        """Store those schemas in the lake that the registry has.

        Raises:
            RegistryError: the registry does not answer.
        """
        for schema_id in schema_ids:
            try:
                self.schema_by_id(schema_id)
            except RegistryError as error:
                # The registry deleted it. The table that needs it stops in the fold.
                if error.retryable:
                    raise

    def _look_up(self, schema_id: int) -> dict[str, Any]:
        path = f"{self._folder}/{schema_id}.json"
        text = read_text(self._spark, self._table, path)
        if text is not None:
            kept: dict[str, Any] = json.loads(text)
            return kept
        if self._registry is None:
            raise SchemaNotStored(f"the lake has no schema {schema_id} at {path}")
        schema = self._registry(schema_id)
        try:
            write_text(self._spark, self._table, path, json.dumps(schema))
        except (PySparkException, Py4JError) as error:
            # Probably another starting sink writes the same text at the same time.
            if read_text(self._spark, self._table, path) is None:
                raise translated(f"writing {path}", error) from error
        return schema
