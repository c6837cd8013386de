"""The Parquet files that one task writes into the folders of lake tables.

A file belongs to its table only once it is committed, by the results of the tasks that won. Files
of failed and repeated tasks are in no version, and VACUUM removes them.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from typing import Any, Final

import pyarrow as pa
import pyarrow.parquet as pq
from pyarrow import fs

from tailrace_sink.columns.change_columns import ChangeDecoder, schema_of
from tailrace_sink.columns.file_statistics import statistics_json
from tailrace_sink.columns.last_changes import LastChanges
from tailrace_sink.columns.spec import Target, Work

RESULT: Final = (
    "results array<struct<target: int, is_rest: boolean, path: string, bytes: bigint,"
    " statistics: string, lacking: bigint, changes: bigint, hashes: bigint>>"
)
"""What a task returns: rows without results while it decodes, then one row with all its results.

These are one for each file, and one with its counts (target -1). A file with ``is_rest`` is none of
the table's: it has changes that are no rows (``LastChanges``).
"""
COUNTS: Final = -1
CHANGES_A_ROW: Final = 10
"""Decoded changes for each row without results. Spark counts these rows while the task runs
(``watch.task_rows``). PySpark sends them in pieces of 64 KiB, some 50,000 changes. A row for each
change would take 0.2 µs of it (ADR 0095)."""
_RESULTS: Final = pa.list_(
    pa.struct(
        [
            ("target", pa.int32()),
            ("is_rest", pa.bool_()),
            ("path", pa.string()),
            ("bytes", pa.int64()),
            ("statistics", pa.string()),
            ("lacking", pa.int64()),
            ("changes", pa.int64()),
            ("hashes", pa.int64()),
        ]
    )
)
_GROUP_ROWS: Final = 500_000
_GROUP_BYTES: Final = 64 * 1024 * 1024
"""Decoded bytes of a row group, which a task holds in memory."""
_FILE_BYTES: Final = 160 * 1024 * 1024
"""Bytes from which a file is closed; the last row group may exceed it."""
_HELD_BYTES: Final = 96 * 1024 * 1024
"""Decoded bytes of changes that a task holds before it reduces them."""
_REDUCED_BYTES: Final = 64 * 1024 * 1024
"""Bytes of reduced changes that are written, though later ones may have their keys."""
_S3_ATTEMPTS: Final = 12
"""Of one request to a busy store: pauses that double up to 20 s, a minute and more in all. Three
are the client's own. See: AWS SDK for C++, StandardRetryStrategy; Spark's client waits as long."""
_NOT_REPEATED: Final = frozenset({"_cdc_position"})
"""Columns whose values are all different: a dictionary of them is built in vain."""


def write_task(work: Work, batches: Iterable[pa.Array]) -> Iterator[pa.RecordBatch]:
    """Decode the messages of one task and write its files.

    Args:
        batches: framed messages, read while they are decoded.

    Yields:
        Rows of :data:`RESULT`.

    Raises:
        Undecodable: a message is no change of the table.
        OSError: a file could not be written.
    """
    decoder = ChangeDecoder(work)
    files = [
        (_LastFiles if target.key else _TargetFiles)(target, schema, work)
        for target, schema in zip(work.targets, decoder.schemas, strict=True)
    ]
    changes = hashes = told = 0
    try:
        for batch in batches:
            decoded = decoder.decode(batch)
            changes += decoded.count
            hashes += decoded.hashes
            for target, rows in zip(files, decoded.rows, strict=True):
                target.add(rows)
            if more := changes // CHANGES_A_ROW - told:
                told += more
                yield _batch(pa.nulls(more, _RESULTS))
        for target in files:
            target.close()
    except BaseException:
        for target in files:
            target.discard()
        raise
    results = [
        {"target": place, "is_rest": False, **written}
        for place, of in enumerate(files)
        for written in of.written
    ]
    results.append({"target": COUNTS, "changes": changes, "hashes": hashes})
    yield _batch(pa.array([results], _RESULTS))


def write_rows(work: Work, rows: pa.Table) -> list[dict[str, Any]]:
    """Write rows of the only target.

    Args:
        rows: in the columns of the target, by any name.

    Returns:
        The files, as results.

    Raises:
        NotByColumns: a column is not written by columns.
        OSError: a file could not be written.
    """
    (target,) = work.targets
    schema = schema_of(target)
    files = _TargetFiles(target, schema, work)
    try:
        files.add(rows.rename_columns(schema.names).cast(schema).to_batches())
        files.close()
    except BaseException:
        files.discard()
        raise
    return files.written


def _batch(results: pa.Array) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays([results], names=["results"])


class _TargetFiles:
    """The files of one lake table.

    Attributes:
        written: the closed ones, as results.
    """

    def __init__(self, target: Target, schema: pa.Schema, work: Work) -> None:
        self.written: list[dict[str, Any]] = []
        self._target = target
        self._schema = schema
        self._metadata = dict(work.metadata)
        self._system = file_system(work.s3)
        self._waiting: list[pa.RecordBatch] = []
        self._rows = self._bytes = 0
        self._file: Any = None

    def add(self, rows: Iterable[pa.RecordBatch]) -> None:
        """Add rows."""
        for batch in rows:
            if batch.num_rows:
                self._waiting.append(batch)
                self._rows += batch.num_rows
                self._bytes += batch.nbytes
        if self._rows >= _GROUP_ROWS or self._bytes >= _GROUP_BYTES:
            self._write_group()
            if self._file is not None and self._file.bytes >= _FILE_BYTES:
                self._end_file()

    def close(self) -> None:
        """Write what is left."""
        self._write_group()
        self._end_file()

    def discard(self) -> None:
        """Delete the files, as far as that is possible."""
        names = [of["path"] for of in self.written]
        if self._file is not None:
            names.append(self._file.name)
            self._file.abandon()
        delete_files(self._system, self._target.folder, names)

    def _write_group(self) -> None:
        if not self._waiting:
            return
        rows = pa.Table.from_batches(self._waiting)
        self._waiting, self._rows, self._bytes = [], 0, 0
        if self._file is None:
            if isinstance(self._system, fs.LocalFileSystem):
                self._system.create_dir(self._target.folder)
            name = f"part-{uuid.uuid4()}.snappy.parquet"
            self._file = _File(self._system, self._target.folder, name, self._schema)
            self._file.describe(self._metadata)
        self._file.write(rows)

    def _end_file(self) -> None:
        if self._file is not None:
            file, self._file = self._file, None
            footer = file.end()
            statistics = statistics_json(footer, self._schema, self._target.indexed)
            self.written.append({"path": file.name, "bytes": file.bytes, "statistics": statistics})


class _LastFiles:
    """The files of one lake table that gets the last change of each key."""

    def __init__(self, target: Target, schema: pa.Schema, work: Work) -> None:
        self._last = LastChanges(target, schema)
        of_table = pa.schema(list(schema)[: len(target.columns)])
        self._rows, self._rest = (_TargetFiles(target, of, work) for of in (of_table, schema))
        self._held = schema.empty_table()
        self._lacking = 0

    @property
    def written(self) -> list[dict[str, Any]]:
        """The closed files, as results."""
        rest = [{**of, "is_rest": True, "lacking": 0} for of in self._rest.written]
        if rest:
            rest[0]["lacking"] = self._lacking
        return [*self._rows.written, *rest]

    def add(self, changes: Iterable[pa.RecordBatch]) -> None:
        """Add changes."""
        batches = [batch for batch in changes if batch.num_rows]
        if batches:
            self._held = pa.concat_tables([self._held, pa.Table.from_batches(batches)])
        if self._held.nbytes >= _HELD_BYTES:
            self._held = self._last.reduced(self._held)
            if self._held.nbytes >= _REDUCED_BYTES:
                self._write()

    def close(self) -> None:
        """Write what is left."""
        self._held = self._last.reduced(self._held)
        self._write()
        self._rows.close()
        self._rest.close()

    def discard(self) -> None:
        """Delete the files, as far as that is possible."""
        self._rows.discard()
        self._rest.discard()

    def _write(self) -> None:
        rows, rest, lacking = self._last.parted(self._held)
        self._held = self._held.slice(0, 0)
        self._lacking += lacking
        self._rows.add(rows.to_batches())
        self._rest.add(rest.to_batches())


class _File:
    """An open file.

    Attributes:
        bytes: written so far, without the rows that Parquet still holds.
    """

    def __init__(self, system: fs.FileSystem, folder: str, name: str, schema: pa.Schema) -> None:
        self.name = name
        self._stream = system.open_output_stream(f"{folder}/{name}")
        self._footers: list[pq.FileMetaData] = []
        self._writer = pq.ParquetWriter(
            self._stream,
            schema,
            compression="snappy",
            use_dictionary=[n for n in _leaves(schema) if n not in _NOT_REPEATED],
            store_decimal_as_integer=True,
            store_schema=False,
            metadata_collector=self._footers,
        )

    @property
    def bytes(self) -> int:
        return int(self._size if self._stream.closed else self._stream.tell())

    def describe(self, metadata: Mapping[str, str]) -> None:
        self._writer.add_key_value_metadata(metadata)

    def write(self, rows: pa.Table) -> None:
        self._writer.write_table(rows, row_group_size=max(1, rows.num_rows))

    def end(self) -> pq.FileMetaData:
        self._writer.close()
        self._size = self._stream.tell()
        self._stream.close()
        return self._footers[0]

    def abandon(self) -> None:
        self._size = 0
        self._stream.close()


def _leaves(schema: pa.Schema) -> list[str]:
    return [
        f"{field.name}.list.element" if pa.types.is_list(field.type) else field.name
        for field in schema
    ]


def file_system(s3: Mapping[str, Any] | None) -> fs.FileSystem:
    """Open the file system of the lake.

    Args:
        s3: arguments of ``pyarrow.fs.S3FileSystem``; None: local folders.
    """
    if s3 is None:
        return fs.LocalFileSystem()
    patience = fs.AwsStandardS3RetryStrategy(max_attempts=_S3_ATTEMPTS)
    return fs.S3FileSystem(**s3, retry_strategy=patience)


def delete_files(system: fs.FileSystem, folder: str, names: Iterable[str]) -> None:
    """Delete files that no table has, as far as that is possible; VACUUM removes the others."""
    for name in names:
        with suppress(OSError):
            system.delete_file(f"{folder}/{name}")


def numbers_of(batches: Iterable[pa.RecordBatch]) -> Iterator[int]:
    """Return the numbers in the only column of batches."""
    for batch in batches:
        yield from batch.column(0).to_pylist()
