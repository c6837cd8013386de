"""Rows of a small table that have a key of some changes, found in the driver."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyarrow import fs

from tailrace_sink.columns.arrow_values import lake_type
from tailrace_sink.columns.task_files import file_system
from tailrace_sink.files.key_match import FILE, ROW, matches
from tailrace_sink.files.old_rows import OldRows
from tailrace_sink.files.parquet_files import FileForm, pyarrow_path
from tailrace_sink.iceberg.files.found_files import FoundFile
from tailrace_sink.tables.lake_table import POSITION, LakeTable

_FIELD_ID: Final = b"PARQUET:field_id"


def find_in_memory(
    found: Iterable[FoundFile],
    io: Any,
    form: FileForm,
    table: LakeTable,
    changes: pa.Table,
    s3: Mapping[str, Any] | None,
) -> OldRows | None:
    """Find the rows that have a key of some changes (``find_old_rows``).

    Args:
        found: the files that may have such rows, together of some megabytes.
        io: the table's files, of Java.
        changes: the last change of each key; the keys have types that ``key_match`` lists.
        s3: arguments of ``pyarrow.fs.S3FileSystem``; None: local folders.

    Returns:
        None if Spark must read a file.

    Raises:
        Py4JError: a deletion vector cannot be read.
    """
    types = {column.name: lake_type(column.type) for column in table.columns}
    of = [(name, types[name]) for name in table.key] + [(POSITION, pa.binary())]
    schema = pa.schema([_with_id(pa.field(*field), form) for field in of])
    changed = {name: pc.unique(changes[name].combine_chunks()) for name in table.key}
    system, parts = file_system(s3), []
    for file in found:
        try:
            keys = _keys(system, file, schema)
            if keys is None:
                return None
            rows = _with_keys(keys, changed, file.path)
            if rows.num_rows:  # Otherwise its deletion vector is not needed.
                deleted = file.deleted_rows(io)
                is_there = [row not in deleted for row in rows[ROW].to_pylist()]
                rows = rows.filter(pa.array(is_there, pa.bool_()))
        except (OSError, ValueError, pa.ArrowException):  # Spark reports what is wrong.
            return None
        parts.append(rows)
    return OldRows(*matches(pa.concat_tables(parts), changes, table))


def _with_keys(keys: pa.Table, changed: Mapping[str, pa.Array], path: str) -> pa.Table:
    """Return the rows of a file that may have one of some keys, with their places."""
    rows = keys.append_column(ROW, pa.array(np.arange(keys.num_rows)))
    for name, values in changed.items():
        rows = rows.filter(pc.is_in(rows[name], values))
    return rows.append_column(FILE, pa.repeat(path, rows.num_rows))


def _with_id(field: pa.Field, form: FileForm) -> pa.Field:
    """Return a field with its column's id in Parquet."""
    return field.with_metadata({_FIELD_ID: str(form.physical[field.name][1])})


def _keys(system: fs.FileSystem, file: FoundFile, schema: pa.Schema) -> pa.Table | None:
    """Return the keys of all rows of a file, which are read once; None if Spark must read it."""
    if file.keys is not None and file.keys.schema.equals(schema, check_metadata=True):
        return file.keys
    path = pyarrow_path(file.path)
    if path is None or not file.has_only_vectors:
        return None
    rows = _columns(system, path, [field.metadata[_FIELD_ID] for field in schema])
    if rows is not None:
        rows = file.keys = rows.rename_columns(schema.names).cast(schema)
    return rows


def _columns(system: fs.FileSystem, path: str, ids: Iterable[bytes]) -> pa.Table | None:
    """Read the columns with some ids; None if the file lacks one."""
    with system.open_input_file(path) as stream:
        file = pq.ParquetFile(pa.BufferReader(stream.read_buffer()))
    of_ids = {
        field.metadata[_FIELD_ID]: field.name
        for field in file.schema_arrow
        if field.metadata and _FIELD_ID in field.metadata
    }
    names = [of_ids.get(id_) for id_ in ids]
    if None in names:
        return None
    return file.read(columns=names, use_threads=False).select(names)
