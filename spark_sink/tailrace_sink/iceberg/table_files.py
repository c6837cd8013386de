"""The files of a table: how they must look, which may have some keys, and their commits.

Iceberg's own writer takes a job of Spark for each commit. Files that are written already, and rows
in the driver's memory, need none.
"""

from __future__ import annotations

import datetime as dt
import uuid
from array import array
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

from pyroaring import BitMap64

from tailrace_sink.files.parquet_files import FileForm, ParquetFile
from tailrace_sink.iceberg.classes import FileClasses
from tailrace_sink.iceberg.deletion_vectors import FoundFile, vectors
from tailrace_sink.iceberg.loaded_table import LoadedTable
from tailrace_sink.iceberg.names import BRANCH
from tailrace_sink.iceberg.new_table import own_folder
from tailrace_sink.tables.key_bounds import KeyBound

_FORMAT_PROPERTY: Final = "write.format.default"
_PARQUET: Final = "parquet"


class TableFiles:
    """A table at one moment; its commits are to the branch.

    Args:
        types: Spark SQL type of each column.
        summary: entries of the summary of each snapshot.
    """

    def __init__(
        self,
        classes: FileClasses,
        table: LoadedTable,
        types: Mapping[str, str],
        summary: Mapping[str, str],
    ) -> None:
        self._classes = classes
        self._table = table
        self._types = types
        self._summary = summary
        self._deleted: dict[str, BitMap64] = {}

    @property
    def form(self) -> FileForm | None:
        """How the files must look; None: Iceberg's own writer must write them.

        That is so for partitions, for another format and for a folder that other tables may use.
        """
        properties, java = self._table.properties, self._table.java
        address, format_ = own_folder(properties), properties.get(_FORMAT_PROPERTY) or _PARQUET
        if address is None or format_ != _PARQUET or java.spec().isPartitioned():
            return None
        physical: dict[str, tuple[str, int | None]] = {}
        elements, required = {}, []
        for field in list(java.schema().columns()):
            name = str(field.name())
            physical[name] = (str(self._classes.names(name)), int(field.fieldId()))
            if field.type().isListType():
                elements[name] = int(field.type().asListType().elementId())
            if field.isRequired():
                required.append(name)
        return FileForm(address, self._types, physical, len(physical), elements, tuple(required))

    def meeting(self, bounds: Iterable[KeyBound]) -> list[FoundFile]:
        """Select the files that may have a key between some bounds.

        Raises:
            Py4JError: the metadata cannot be read.
        """
        of, scan = self._classes.expressions, self._table.java.newScan()
        scan = scan.useRef(BRANCH)
        for bound in bounds:
            name = bound.column.name
            scan = scan.filter(of.greaterThanOrEqual(name, _literal(bound.least)))
            scan = scan.filter(of.lessThanOrEqual(name, _literal(bound.greatest)))
        tasks = scan.planFiles()
        try:
            return [
                FoundFile(str(task.file().location()), task.file(), list(task.deletes()))
                for task in _items(tasks)
            ]
        finally:
            tasks.close()

    def deleted_rows(self, found: FoundFile) -> BitMap64:
        """Return the positions of the deleted rows of a file (``FoundFile.deleted_rows``)."""
        if found.path not in self._deleted:
            self._deleted[found.path] = found.deleted_rows(self._table.java.io())
        return self._deleted[found.path]

    def append(self, form: FileForm, files: Iterable[ParquetFile]) -> None:
        """Add files.

        Raises:
            Py4JError: a file cannot be read, or the commit failed.
        """
        commit = self._table.java.newAppend()
        for file in self._entries(form, files):
            commit.appendFile(file)
        self._commit(commit)

    def replace_rows(
        self, form: FileForm, files: Sequence[ParquetFile], rows: Mapping[FoundFile, array[int]]
    ) -> None:
        """Add files, and remove rows from others, in one commit.

        Args:
            rows: positions in files of :meth:`meeting`.

        Raises:
            Py4JError: as of :meth:`append`; also if somebody else removed one of the files.
            ValueError: a deletion vector is damaged.
        """
        commit = self._table.java.newRowDelta()
        for file in self._entries(form, files):
            commit.addRows(file)
        if rows:
            path = f"{form.address}/{uuid.uuid4()}-deletes.puffin"
            gone = {
                of: self.deleted_rows(of) | BitMap64(array("Q", left.tobytes()))
                for of, left in rows.items()
            }
            for vector in vectors(self._classes, self._table.java, path, gone):
                commit.addDeletes(vector)
            for former in (former for found in rows for former in found.deletes):
                commit.removeDeletes(former)
            commit.validateFromSnapshot(self._table.head(BRANCH))
            commit.validateDataFilesExist([found.path for found in rows])
            commit.validateDeletedFiles()
        self._commit(commit)

    def _entries(self, form: FileForm, files: Iterable[ParquetFile]) -> Iterator[Any]:
        """Yield Java's entries of files, with the statistics of their footers."""
        classes, java = self._classes, self._table.java
        kept = classes.metrics.forTable(java)
        for file in files:
            path = f"{form.address}/{file.name}"
            entry = classes.data_files.builder(java.spec())
            entry.withPath(path).withFormat(_PARQUET).withFileSizeInBytes(file.bytes)
            metrics = classes.parquet.fileMetrics(java.io().newInputFile(path), kept)
            yield entry.withMetrics(metrics).build()

    def _commit(self, commit: Any) -> None:
        for entry, text in self._summary.items():
            commit.set(entry, text)
        commit.toBranch(BRANCH).commit()


def _items(iterable: Any) -> Iterator[Any]:
    items = iterable.iterator()
    while items.hasNext():
        yield items.next()


def _literal(value: Any) -> Any:
    """Return a value from which Iceberg makes a literal of the column's type."""
    return value.isoformat() if isinstance(value, dt.date | dt.datetime) else value
