"""An append of files before its commit, and the files of the table (``Added``)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from pyspark.sql import DataFrame

from tailrace_sink.files.parquet_files import FileForm, ParquetFile, key_bounds, statistics_of
from tailrace_sink.iceberg.files.table_files import TableFiles
from tailrace_sink.tables.key_bounds import KeyBound, conditions_of
from tailrace_sink.tables.lake_table import LakeTable


@dataclass(frozen=True, slots=True)
class _Meeting:
    """A file that may have a key between bounds."""

    bounds: tuple[KeyBound, ...]
    bytes: int

    def size(self) -> int:
        return self.bytes


@dataclass(frozen=True, slots=True)
class AddedFiles:
    """The append of some files.

    Attributes:
        new: rows of the files.
        there: rows of the table, under the name ``t``.
    """

    form: FileForm
    files: Sequence[ParquetFile]
    new: DataFrame
    table: TableFiles
    there: DataFrame

    @property
    def added(self) -> list[Any]:
        """Files of the append."""
        return list(self.files)

    def bounds_of_added(self, table: LakeTable) -> list[KeyBound]:
        """Compute the bounds of the append's keys."""
        physical = {name: of for name, (of, _) in self.form.physical.items()}
        return key_bounds((statistics_of(of.statistics) for of in self.files), table, physical)

    def files_meeting(self, bounds: Sequence[KeyBound]) -> list[Any]:
        """Select the table's files that may have a key between bounds."""
        return [_Meeting(tuple(bounds), found.bytes) for found in self.table.meeting(bounds)]

    def has_none_between(self, bounds: Sequence[KeyBound]) -> bool:
        """Whether no file of the table can have a key between bounds; False without any."""
        return bool(bounds) and not self.table.meeting(bounds)

    def rows_of(self, files: Sequence[Any]) -> DataFrame:
        """Read the rows of the append, or those of the table that are between the bounds."""
        if not files or not isinstance(files[0], _Meeting):
            return self.new
        rows = self.there
        for condition in conditions_of(files[0].bounds):
            rows = rows.where(condition)
        return rows
