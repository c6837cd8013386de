"""Deletion vectors, written by Delta's own classes: rows leave a file without a rewrite."""

from __future__ import annotations

from array import array
from collections.abc import Iterator, Mapping
from typing import Any

from tailrace_sink.delta.classes import WritingClasses


def actions_without_rows(
    classes: WritingClasses,
    log: Any,
    rows: Mapping[str, array[int]],
    files: Mapping[str, Any],
) -> Iterator[Any]:
    """Write all vectors into one new file, and return the actions that apply them.

    Args:
        rows: file name to row indexes (``_metadata.row_index``).
        files: file name to Delta's entry.
    """
    store = classes.vector_store(log.newDeltaHadoopConf())
    root, number = log.dataPath(), classes.uuid.randomUUID()
    path = classes.vector.assembleDeletionVectorPath(root, number, "")
    writer = store.createWriter(store.pathWithFileSystem(path))
    try:
        for name, indexes in rows.items():
            file = files[name]
            bitmap = classes.bitmap.apply(classes.longs.sent(indexes))
            if file.deletionVector() is not None:
                bitmap.merge(store.read(file.deletionVector(), root))
            bitmap.runOptimize()
            left = bitmap.cardinality()
            place = writer.write(bitmap.serializeAsByteArray(classes.portable))
            total = file.numPhysicalRecords()
            if total.isDefined() and int(total.get()) == left:
                yield file.remove()
                continue
            vector = classes.vector.onDiskWithRelativePath(
                number, "", place.length(), left, classes.some(place.offset()), classes.none
            )
            changed = file.removeRows(vector, True, True)
            yield changed._1()  # noqa: SLF001 - a pair of Scala's
            yield changed._2()  # noqa: SLF001 - as above
    finally:
        writer.close()
