"""Files of one table's part of a batch, which were counted and are in no version yet."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from pyspark.sql import DataFrame, SparkSession

from tailrace_sink.columns.distinct_keys import are_distinct, keys_in
from tailrace_sink.columns.spec import Target
from tailrace_sink.columns.task_files import delete_files, file_system
from tailrace_sink.files.parquet_files import FileForm, ParquetFile
from tailrace_sink.ports.writes import Examine, Once
from tailrace_sink.rows.file_changes import changes_in_files
from tailrace_sink.tables.lake_table import LakeTable

if TYPE_CHECKING:
    import pyarrow as pa

Append = Callable[[SparkSession, "CountedFiles", Once, Examine | None], None]
"""Appends files once, as their table's format does it; raises what ``WrittenFiles.append`` does."""


@dataclass(slots=True)
class CountedFiles:
    """The files of one table (``WrittenFiles``).

    Attributes:
        files: with rows of the table.
        rest: of reduced changes, files with those that are no rows (``LastChanges.parted``).
        lacking: how many changes of ``rest`` lack large values.
        s3: arguments of ``pyarrow.fs.S3FileSystem``; None: a local folder.
        is_offered: whether a commit with ``files`` was tried.
    """

    table: LakeTable
    form: FileForm
    files: tuple[ParquetFile, ...]
    target: Target
    s3: Mapping[str, Any] | None = field(repr=False)
    appended: Append = field(repr=False)
    rest: tuple[ParquetFile, ...] = ()
    lacking: int = 0
    is_offered: bool = False

    @property
    def is_reduced(self) -> bool:
        """Whether each task wrote the last change of each key only."""
        return bool(self.target.key)

    def keys(self, key: Sequence[str]) -> pa.Table | None:
        """Read the keys of all rows and of the rest; None if there are none or too many."""
        physical = [self.form.physical[name][0] for name in key]
        names = [file.name for file in (*self.files, *self.rest)]
        found = keys_in(self.target.folder, names, physical, self.s3)
        return None if found is None else found.rename_columns(list(key))

    def has_distinct(self, key: Sequence[str]) -> bool:
        """Whether all rows are known to have different keys; False also if they are too many."""
        if not self.files:
            return True
        keys = self.keys(key)
        return keys is not None and are_distinct(keys)

    def changes(self, spark: SparkSession, table: LakeTable) -> DataFrame:
        """Read the changes (:func:`changes_in_files`)."""
        physical = {name: of for name, (of, _) in self.form.physical.items()}
        files, rest = (
            [f"{self.form.address}/{file.name}" for file in part]
            for part in (self.files, self.rest)
        )
        return changes_in_files(spark, table, physical, files, rest)

    def offered(self, form: FileForm | None) -> Sequence[ParquetFile] | None:
        """Return the files for a commit; None if the table now needs others."""
        if form != self.form:
            return None
        self.is_offered = True
        return self.files

    def append(self, spark: SparkSession, once: Once, examine: Examine | None) -> None:
        """Append the files once.

        Raises:
            NotAsCounted: the table was altered meanwhile.
        """
        self.appended(spark, self, once, examine)

    def discard(self) -> None:
        """Delete the files that no version can have."""
        left = self.rest if self.is_offered else (*self.files, *self.rest)
        names = [file.name for file in left]
        delete_files(file_system(self.s3), self.target.folder, names)
