"""The data files of a table, and what this process knows of those of small tables.

A small cut changes a few rows of a few files. To read a table's manifests, keys and deletion
vectors again for each one takes longer than the change itself (ADR 0112). A snapshot keeps its
files, and a file keeps its rows. So what this process read or wrote once stays true.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Hashable, Iterator, Sequence
from typing import Any, Final

import pyarrow as pa
from pyroaring import BitMap64

from tailrace_sink.files.parquet_files import FileForm
from tailrace_sink.iceberg.files.deletion_vectors import positions_in

_KEYS_BYTES_MAX: Final = 64 * 1024 * 1024
"""Of the keys in memory, of all tables."""


class FoundFile:
    """A data file of a table, with the files of its deleted rows.

    Args:
        deletes: entries of the files of its deleted rows, of Java.
        deleted: positions of its deleted rows; None: they must be read.
        keys: keys of all its rows, as ``rows_in_memory`` reads them; None: they must be read.
    """

    def __init__(
        self,
        path: str,
        bytes: int,  # noqa: A002 - the size of anything is its bytes
        deletes: Sequence[Any] = (),
        deleted: BitMap64 | None = None,
        keys: pa.Table | None = None,
    ) -> None:
        self.path = path
        self.bytes = bytes
        self.deletes = deletes
        self.has_only_vectors = all(str(of.format()) == "PUFFIN" for of in deletes)
        """Whether all its deleted rows are in a deletion vector: not so before format version 3."""
        self._deleted = deleted
        self.keys = keys

    def deleted_rows(self, io: Any) -> BitMap64:
        """Return the positions of its deleted rows, which are read once.

        Args:
            io: the table's files, of Java.

        Raises:
            ValueError: a vector is damaged.
            Py4JError: it cannot be read.
        """
        if self._deleted is None:
            found = BitMap64()
            for former in self.deletes:
                found |= positions_in(_blob(io, former))
            self._deleted = found
        return self._deleted

    def without(self, deleted: BitMap64, vector: Any) -> FoundFile:
        """Return the file with more deleted rows.

        Args:
            deleted: positions of all deleted rows.
            vector: entry of the vector with them, of Java.
        """
        return FoundFile(self.path, self.bytes, [vector], deleted, self.keys)


class KnownFiles:
    """The files of small tables at the newest snapshot that this process read or wrote.

    Of all tables it knows how their files look. The small tables that were used last stay, with
    keys of some megabytes in all. Thread-safe.
    """

    def __init__(self) -> None:
        self._of: dict[str, tuple[int, Sequence[FoundFile]]] = {}
        self._forms: dict[str, tuple[Hashable, FileForm]] = {}
        self._lock = threading.Lock()

    def at(self, table: str, snapshot: int) -> Sequence[FoundFile] | None:
        """Return the files of a snapshot; None if they are not known."""
        known = self._of.get(table)
        return known[1] if known is not None and known[0] == snapshot else None

    def keep(self, table: str, snapshot: int, files: Sequence[FoundFile]) -> None:
        """Remember the files of a snapshot instead of those of the one before."""
        with self._lock:
            self._of.pop(table, None)
            self._of[table] = (snapshot, files)
            while len(self._of) > 1 and sum(self._key_bytes()) > _KEYS_BYTES_MAX:
                self._of.pop(next(iter(self._of)))

    def form(self, table: str, of: Hashable, read: Callable[[], FileForm]) -> FileForm:
        """Return how a table's files must look.

        Args:
            of: differs with the form.
            read: reads it if it is not known.
        """
        known = self._forms.get(table)
        if known is None or known[0] != of:
            known = self._forms[table] = (of, read())
        return known[1]

    def _key_bytes(self) -> Iterator[int]:
        for _, files in self._of.values():
            yield from (file.keys.nbytes for file in files if file.keys is not None)


def _blob(io: Any, vector: Any) -> bytes:
    stream = io.newInputFile(vector.location()).newStream()
    try:
        stream.seek(vector.contentOffset())
        return bytes(stream.readNBytes(vector.contentSizeInBytes()))
    finally:
        stream.close()
