"""Deletion vectors: rows leave a data file without a rewrite.

Each data file has one vector at most, so a new one holds the positions of the former one, too.
Source: Iceberg's specification, "Deletion Vectors"; that of Puffin, "deletion-vector-v1".
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterator, Mapping
from typing import Any, Final

from pyroaring import BitMap64

from tailrace_sink.iceberg.classes import FileClasses

_INHERITED: Final = -1
"""Snapshot and sequence number of a blob that is written before its commit."""
_MAGIC: Final = b"\xd1\xd3\x39\x64"
_NUMBER: Final = struct.Struct(">I")
"""The bytes of magic number and positions before these, and their CRC-32 after them."""


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
    classes: FileClasses, table: Any, path: str, rows: Mapping[str, BitMap64]
) -> Iterator[tuple[str, Any]]:
    """Write the vectors of some files into one new file, and yield Java's entry of each.

    Args:
        path: address of the new file.
        rows: address of each data file to the positions of all its deleted rows.

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
                {"referenced-data-file": found, "cardinality": str(len(positions))},
            )
            blobs.append((found, len(positions), writer.write(blob)))
    finally:
        writer.close()
    size = int(writer.fileSize())
    for found, count, place in blobs:
        entry = classes.delete_files.deleteFileBuilder(table.spec()).ofPositionDeletes()
        entry.withFormat("puffin").withPath(path).withFileSizeInBytes(size).withRecordCount(count)
        entry.withReferencedDataFile(found).withContentOffset(place.offset())
        yield found, entry.withContentSizeInBytes(place.length()).build()
