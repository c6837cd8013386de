"""Deletion vectors: rows leave a data file without a rewrite.

Each data file has one vector at most, so a new one holds the positions of the former one, too.
Source: Iceberg's specification, "Deletion Vectors"; that of Puffin, "deletion-vector-v1".
"""

from __future__ import annotations

from array import array
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from tailrace_sink.iceberg.classes import FileClasses

_INHERITED: Final = -1
"""Snapshot and sequence number of a blob that is written before its commit."""


@dataclass(frozen=True, slots=True, eq=False)
class FoundFile:
    """A data file of a table, with the files of its deleted rows, all of Java."""

    path: str
    file: Any
    deletes: Sequence[Any]

    @property
    def bytes(self) -> int:
        """Its size."""
        return int(self.file.fileSizeInBytes())

    @property
    def has_only_vectors(self) -> bool:
        """Whether all its deleted rows are in a deletion vector: not so before format version 3."""
        return all(str(of.format().toString()) == "PUFFIN" for of in self.deletes)


def vectors(
    classes: FileClasses, table: Any, path: str, rows: Mapping[FoundFile, array[int]]
) -> Iterator[tuple[FoundFile, Any]]:
    """Write the vectors of some files into one new file, and yield Java's entry of each.

    Args:
        path: address of the new file.
        rows: positions of rows that leave.

    Raises:
        Py4JError: a file cannot be read or written.
    """
    io = table.io()
    blobs = []
    writer = classes.puffin.write(io.newOutputFile(path)).createdBy("Tailrace").build()
    try:
        for found, positions in rows.items():
            index = _index(classes, io, found, positions)
            count = int(index.cardinality())
            blob = classes.blob(
                classes.blob_types.DV_V1,
                [classes.columns.ROW_POSITION.fieldId()],
                _INHERITED,
                _INHERITED,
                index.serialize(),
                None,
                {"referenced-data-file": found.path, "cardinality": str(count)},
            )
            blobs.append((found, count, writer.write(blob)))
    finally:
        writer.close()
    size = int(writer.fileSize())
    for found, count, place in blobs:
        entry = classes.delete_files.deleteFileBuilder(table.spec()).ofPositionDeletes()
        entry.withFormat("puffin").withPath(path).withFileSizeInBytes(size).withRecordCount(count)
        entry.withReferencedDataFile(found.path).withContentOffset(place.offset())
        yield found, entry.withContentSizeInBytes(place.length()).build()


def _index(classes: FileClasses, io: Any, found: FoundFile, positions: array[int]) -> Any:
    """Return the positions of all deleted rows of a file."""
    new = classes.collections.asJava(classes.longs.sent(positions))
    # Nothing is to close, but the other factory has an overload that Py4J prefers.
    closeable = classes.iterable.combine(new, classes.iterable.empty())
    index = classes.deletes.toPositionIndex(closeable)
    for former in found.deletes:
        stream = io.newInputFile(former.location()).newStream()
        try:
            stream.seek(former.contentOffset())
            data = stream.readNBytes(former.contentSizeInBytes())
        finally:
            stream.close()
        index.merge(classes.index.deserialize(data, former))
    return index
