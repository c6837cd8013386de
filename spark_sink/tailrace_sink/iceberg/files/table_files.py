"""The files of a table: how they must look, which may have some keys, and their commits.

Iceberg's own writer takes a job of Spark for each commit. Files that are written already, and rows
in the driver's memory, need none.
"""

from __future__ import annotations

import datetime as dt
import uuid
from array import array
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

from pyroaring import BitMap64

from tailrace_sink.files.parquet_files import FileForm, ParquetFile
from tailrace_sink.iceberg.classes import FileClasses
from tailrace_sink.iceberg.files.deletion_vectors import vectors
from tailrace_sink.iceberg.files.found_files import FoundFile, KnownFiles
from tailrace_sink.iceberg.loaded_table import LoadedTable
from tailrace_sink.iceberg.names import BRANCH
from tailrace_sink.iceberg.new_table import own_folder
from tailrace_sink.tables.key_bounds import KeyBound

_FORMAT_PROPERTY: Final = "write.format.default"
_PARQUET: Final = "parquet"
FILES_BYTES: Final = "total-files-size"
"""Entry of a snapshot's summary with the bytes of its files; its writer may have left it out."""


class TableFiles:
    """A table at one moment; its commits are to the branch.

    Args:
        types: returns the Spark SQL type of each column.
        summary: entries of the summary of each snapshot.
        known: files of small tables.
    """

    def __init__(
        self,
        classes: FileClasses,
        table: LoadedTable,
        types: Callable[[], Mapping[str, str]],
        summary: Mapping[str, str],
        known: KnownFiles,
    ) -> None:
        self._classes = classes
        self._table = table
        self._types = types
        self._summary = summary
        self._known = known

    @property
    def table(self) -> str:
        """The table's name."""
        return str(self._table.name)

    @property
    def form(self) -> FileForm | None:
        """How the files must look; None: Iceberg's own writer must write them.

        That is so for partitions, for another format and for a folder that other tables may use.
        """
        table, java = self._table, self._table.java
        address, format_ = own_folder(table), table.property(_FORMAT_PROPERTY) or _PARQUET
        if address is None or format_ != _PARQUET or java.spec().isPartitioned():
            return None
        of = (table.uuid, address, int(java.schema().schemaId()))
        return self._known.form(self.table, of, lambda: self._form(address))

    def _form(self, address: str) -> FileForm:
        java = self._table.java
        physical: dict[str, tuple[str, int | None]] = {}
        elements, required = {}, []
        for field in list(java.schema().columns()):
            name = str(field.name())
            physical[name] = (str(self._classes.names(name)), int(field.fieldId()))
            if field.type().isListType():
                elements[name] = int(field.type().asListType().elementId())
            if field.isRequired():
                required.append(name)
        return FileForm(address, self._types(), physical, len(physical), elements, tuple(required))

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
                FoundFile(str(file.location()), int(file.fileSizeInBytes()), list(task.deletes()))
                for task in _items(tasks)
                for file in (task.file(),)
            ]
        finally:
            tasks.close()

    def of_small_table(self, bytes_max: int) -> Sequence[FoundFile] | None:
        """Return all files of the branch; None if they have more than some bytes.

        Raises:
            Py4JError: the metadata cannot be read.
        """
        head = self._table.head(BRANCH)
        if head is None:
            return None  # Somebody removed it: a scan of it fails, and the table is taken again.
        known = self._known.at(self.table, head)
        if known is None:
            size = self._table.summary_entry(head, FILES_BYTES)
            if size is None or int(size) > bytes_max:
                return None
            known = self.meeting(())
            self._known.keep(self.table, head, known)
        return known if sum(found.bytes for found in known) <= bytes_max else None

    @property
    def io(self) -> Any:
        """The table's files, of Java."""
        return self._table.java.io()

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
        commit, head = self._table.java.newRowDelta(), self._table.head(BRANCH)
        for file in self._entries(form, files):
            commit.addRows(file)
        left: dict[str, FoundFile] = {}
        if rows:
            puffin = f"{form.address}/{uuid.uuid4()}-deletes.puffin"
            found_at = {found.path: found for found in rows}
            gone = {
                found.path: found.deleted_rows(self.io) | BitMap64(array("Q", more.tobytes()))
                for found, more in rows.items()
            }
            for path, vector in vectors(self._classes, self._table.java, puffin, gone):
                commit.addDeletes(vector)
                left[path] = found_at[path].without(gone[path], vector)
            for former in (former for found in rows for former in found.deletes):
                commit.removeDeletes(former)
            commit.validateFromSnapshot(head)
            commit.validateDataFilesExist(list(gone))
            commit.validateDeletedFiles()
        self._commit(commit)
        new = [FoundFile(f"{form.address}/{file.name}", file.bytes) for file in files]
        self._keep(head, left, new)

    def _keep(
        self, before: int | None, changed: Mapping[str, FoundFile], new: Iterable[FoundFile]
    ) -> None:
        """Remember the files after a commit, if those before it are known."""
        known = None if before is None else self._known.at(self.table, before)
        if known is None:
            return
        after = self._table.again()
        head = after.head(BRANCH)
        # Otherwise somebody else has committed between the two.
        if head is not None and after.parent(head) == before:
            kept = [changed.get(found.path, found) for found in known]
            self._known.keep(self.table, head, [*kept, *new])

    def _entries(self, form: FileForm, files: Iterable[ParquetFile]) -> Iterator[Any]:
        """Yield Java's entries of files, with the statistics of their footers."""
        classes, java = self._classes, self._table.java
        kept = classes.metrics.forTable(java)
        for file in files:
            path = f"{form.address}/{file.name}"
            entry = classes.data_files.builder(java.spec())
            entry.withPath(path).withFormat(_PARQUET).withFileSizeInBytes(file.bytes)
            if file.content is None:
                source = java.io().newInputFile(path)
            else:
                source = classes.in_memory(path, file.content)
            metrics = classes.parquet.fileMetrics(source, kept)
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
