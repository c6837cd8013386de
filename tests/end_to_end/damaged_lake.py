"""The lake of a pipeline, in one format, and damage to its tables that no commit shows."""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final

from pyarrow.fs import LocalFileSystem, S3FileSystem
from pyspark.sql import SparkSession

from tailrace_schemas.position.change_position import ChangePosition
from tailrace_schemas.position.lsn import Lsn
from tailrace_sink.tables.lake_table import CDC_COLUMNS
from tests.end_to_end.conftest import Pipeline
from tests.file_damage import OF_DELTA, OF_ICEBERG, TableFiles, folders_of
from tests.hidden_damage import run_as_an_iceberg_sink, run_as_the_sink

ROWS: Final = 300
GONE: Final = 4
"""A row that the source has deleted."""
LATE: Final = ChangePosition.end_of(Lsn.MAX).to_bytes().hex()

Statements = Callable[[str, int], Sequence[str]]
"""Returns what damages the row with a key of a table."""

OF_ROWS: Final[dict[str, Statements]] = {
    "row_deleted": lambda t, k: [f"DELETE FROM {t} WHERE id = {k}"],
    "row_changed": lambda t, k: [f"UPDATE {t} SET v = v + 1 WHERE id = {k}"],
    "row_nulled": lambda t, k: [f"UPDATE {t} SET note = NULL WHERE id = {k}"],
    "row_doubled": lambda t, k: [f"INSERT INTO {t} SELECT * FROM {t} WHERE id = {k}"],
    "row_resurrected": lambda t, k: [_copied(t, str(GONE), k)],
    "row_invented": lambda t, k: [_copied(t, str(ROWS + k), k)],
    "row_raised": lambda t, k: [f"UPDATE {t} SET v = -1, _cdc_position = X'{LATE}' WHERE id = {k}"],
    "rows_swapped": lambda t, k: [
        f"UPDATE {t} SET v = CASE id WHEN {k} THEN {k + 1} ELSE {k} END WHERE id IN ({k}, {k + 1})"
    ],
    "key_nulled": lambda t, k: [_copied(t, "CAST(NULL AS INT)", k)],
}
OF_OTHERS: Final[dict[str, Statements]] = {
    "row_deleted_by_others": OF_ROWS["row_deleted"],
    "row_changed_by_others": OF_ROWS["row_changed"],
}
REFUSED: Final = {"key_nulled"}
"""Damage that Iceberg refuses: its columns of a key have no NULL."""


def _copied(table: str, key: str, of: int) -> str:
    names = f"v, note, {', '.join(CDC_COLUMNS)}"
    return f"INSERT INTO {table} (id, {names}) SELECT {key}, {names} FROM {table} WHERE id = {of}"


@dataclass(frozen=True)
class Lake:
    """The lake of a round, in one format."""

    pipeline: Pipeline
    sinks: SparkSession
    is_iceberg: bool

    @cached_property
    def spark(self) -> SparkSession:
        """A session of others; one that is made after the sink's has its catalog."""
        return self.sinks.newSession()

    def name(self, table: str) -> str:
        """The table in SQL."""
        if self.is_iceberg:
            options = self.pipeline.sink_config.iceberg_options
            return f"{options.name}.{options.namespace}.{table}"
        return f"delta.`{self.pipeline.folder}/lake/{self.path(table)}`"

    def path(self, table: str) -> str:
        return f"{self.pipeline.database}/dbo/{table}"

    def run(self, table: str, statement: str) -> None:
        """Run a statement as the sink."""
        if self.is_iceberg:
            run_as_an_iceberg_sink(self.spark, self.name(table), statement)
        else:
            run_as_the_sink(self.spark, self.pipeline.prefix, statement)

    def files(self, table: str) -> TableFiles:
        config = self.pipeline.sink_config
        if self.is_iceberg:
            store = S3FileSystem(**config.s3.pyarrow())
            return TableFiles(store, folders_of(self.spark, self.name(table)))
        return TableFiles(LocalFileSystem(), (f"{config.lake}/{self.path(table)}",))

    @property
    def of_files(self) -> Mapping[str, Callable[[TableFiles], None]]:
        return OF_ICEBERG if self.is_iceberg else OF_DELTA

    @property
    def damages(self) -> list[str]:
        """Names of those that there are in the format."""
        of_rows = [name for name in OF_ROWS if not (self.is_iceberg and name in REFUSED)]
        return [*of_rows, *OF_OTHERS, *self.of_files]

    def strike(self, table: str, damage: str, key: int) -> None:
        if damage in self.of_files:
            self.of_files[damage](self.files(table))
        for statement in OF_ROWS.get(damage, _nothing)(self.name(table), key):
            self.run(table, statement)
        for statement in OF_OTHERS.get(damage, _nothing)(self.name(table), key):
            self.spark.sql(statement)
        self.forget()

    def forget(self) -> None:
        """Read tables as a process does that starts."""
        jvm: Any = self.spark._jvm
        jvm.org.apache.spark.sql.delta.DeltaLog.clearCache()

    def remove(self, words: str) -> None:
        """Do what an error says of a table that cannot be replaced."""
        if folder := re.search(r"move the folder (\S+) away", words):
            shutil.move(folder[1], f"{folder[1].rstrip('/')}.away")
        elif name := re.search(r"drop the table (\S+) in the catalog", words):
            self.spark.sql(f"DROP TABLE {name[1]}")

    def rows(self, table: str) -> list[tuple[Any, ...]]:
        found = self.spark.table(self.name(table)).where("_cdc_op <> 'd'")
        return sorted(map(tuple, found.select("id", "v", "note").collect()))


def _nothing(_table: str, _key: int) -> Sequence[str]:
    return ()


def stopped(pipeline: Pipeline, table: str) -> str:
    """Why the sink stopped a table; empty if it did not."""
    found = pipeline.commit_rows()[-1].stopped
    return next((reason for topic, reason in found.items() if topic.endswith(f".{table}")), "")
