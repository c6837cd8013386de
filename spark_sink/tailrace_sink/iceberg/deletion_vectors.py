"""Deletion vectors: rows leave a data file without a rewrite.

Each data file has one vector at most, so a new one holds the positions of the former one, too.
Source: Iceberg's specification, "Deletion Vectors"; that of Puffin, "deletion-vector-v1".
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from pyroaring import BitMap64

from tailrace_sink.iceberg.classes import FileClasses

_INHERITED: Final = -1
"""Snapshot and sequence number of a blob that is written before its commit."""
_MAGIC: Final = b"\xd1\xd3\x39\x64"
_NUMBER: Final = struct.Struct(">I")
"""The bytes of magic number and positions before these, and their CRC-32 after them."""


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

    def deleted_rows(self, io: Any) -> BitMap64:
        """Read the positions of its deleted rows.

        Args:
            io: the table's files, of Java.

        Raises:
            ValueError: a vector is damaged.
            Py4JError: it cannot be read.
        """
        found = BitMap64()
        for former in self.deletes:
            stream = io.newInputFile(former.location()).newStream()
            try:
                stream.seek(former.contentOffset())
                found |= positions_in(stream.readNBytes(former.contentSizeInBytes()))
            finally:
                stream.close()
        return found


def positions_in(blob: bytes) -> BitMap64:
    """Read the positions of a vector.

    Raises:
        ValueError: length, check sum or magic number are not those of the bytes.
    """
    body, number = blob[_NUMBER.size : -_NUMBER.size], _NUMBER.size
    frame = _NUMBER.pack(len(body)), _NUMBER.pack(zlib.crc32(body))
    if (blob[:number], blob[-number:]) != frame or not body.startswith(_MAGIC):
        raise ValueError("a deletion vector is damaged")
    return BitMap64.deserialize(body.removeprefix(_MAGIC))


def blob_of(positions: BitMap64) -> bytes:
    """Return the vector of some positions."""
    body = _MAGIC + positions.serialize()
    return _NUMBER.pack(len(body)) + body + _NUMBER.pack(zlib.crc32(body))


def vectors(
    classes: FileClasses, table: Any, path: str, rows: Mapping[FoundFile, BitMap64]
) -> Iterator[Any]:
    """Write the vectors of some files into one new file, and yield Java's entry of each.

    Args:
        path: address of the new file.
        rows: positions of all deleted rows.

    Raises:
        Py4JError: the file cannot be written.
    """
    blobs = []
    writer = classes.puffin.write(table.io().newOutputFile(path)).createdBy("Tailrace").build()
    try:
        for found, positions in rows.items():
            blob = classes.blob(
                classes.blob_types.DV_V1,
                [classes.columns.ROW_POSITION.fieldId()],
                _INHERITED,
                _INHERITED,
                classes.byte_buffer.wrap(blob_of(positions)),
                None,
                {"referenced-data-file": found.path, "cardinality": str(len(positions))},
            )
            blobs.append((found, len(positions), writer.write(blob)))
    finally:
        writer.close()
    size = int(writer.fileSize())
    for found, count, place in blobs:
        entry = classes.delete_files.deleteFileBuilder(table.spec()).ofPositionDeletes()
        entry.withFormat("puffin").withPath(path).withFileSizeInBytes(size).withRecordCount(count)
        entry.withReferencedDataFile(found.path).withContentOffset(place.offset())
        yield entry.withContentSizeInBytes(place.length()).build()
