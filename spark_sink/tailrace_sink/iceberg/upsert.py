"""Upserts: old rows leave a table and the last changes of their keys enter it, in one commit.

A change has its whole row. So only the place of the old row is needed, which one pass over keys and
positions finds. The driver does it in a small table, otherwise a job of Spark. A MERGE takes
several jobs for the same deletion vector and append.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyarrow import fs
from pyspark.sql import DataFrame

from tailrace_sink.columns.arrow_values import lake_type
from tailrace_sink.columns.avro_plan import NotByColumns
from tailrace_sink.columns.spec import Work
from tailrace_sink.columns.task_files import file_system, write_rows
from tailrace_sink.files.counted_files import CountedFiles
from tailrace_sink.files.key_match import FILE, ROW, matches
from tailrace_sink.files.old_rows import OldRows, find_old_rows, listed_keys
from tailrace_sink.files.parquet_files import FileForm, ParquetFile, pyarrow_path
from tailrace_sink.iceberg.deletion_vectors import FoundFile
from tailrace_sink.iceberg.table_files import TableFiles
from tailrace_sink.options.modes import DeleteMode
from tailrace_sink.ports.table_format import Latest
from tailrace_sink.rows.column_targets import target_of
from tailrace_sink.tables.key_bounds import exact_in
from tailrace_sink.tables.lake_table import OPERATION, POSITION, LakeTable

_FIELD_ID: Final = b"PARQUET:field_id"


def upsert(
    files: TableFiles,
    there: DataFrame,
    table: LakeTable,
    latest: Latest,
    delete_mode: DeleteMode,
    s3: Mapping[str, Any] | None,
) -> bool:
    """Apply the last change of each key to the branch of a table, in one commit.

    Args:
        there: rows of the branch; read in a session of this thread only.
        s3: arguments of ``pyarrow.fs.S3FileSystem``; None: the table is in local folders.

    Returns:
        False if a MERGE is needed. The changes are neither few nor in files, or one lacks values.
        A row is newer than its change, or Iceberg's own writer must write the files.

    Raises:
        PySparkException, Py4JError: Spark or Iceberg failed.
        OSError: the rows cannot be written.
    """
    form, written, local = files.form, latest.written, latest.local
    if form is None or form.types != table.types:
        return False
    if not isinstance(written, CountedFiles) and local is None:
        return False
    if latest.lacking is not None and latest.rows.where(latest.lacking).limit(1).collect():
        return False
    exact = latest.exact or ([] if local is None else exact_in(local, table))
    meeting = {found.path: found for found in files.meeting(exact)}
    old = _old_rows(files, form, meeting, there, table, latest, s3)
    if old.has_newer or not old.rows.keys() <= meeting.keys():
        return False
    rows = {meeting[path]: positions for path, positions in old.rows.items()}
    if not all(found.has_only_vectors for found in rows):
        return False
    new: Sequence[ParquetFile] | None
    if isinstance(written, CountedFiles):
        new = written.offered(form)
    else:
        new = None if local is None else _written(local, table, form, delete_mode, s3)
    if new is None or form.has_null(new):
        return False
    if new or rows:
        files.replace_rows(form, new, rows)
    return True


def _old_rows(
    files: TableFiles,
    form: FileForm,
    meeting: Mapping[str, FoundFile],
    there: DataFrame,
    table: LakeTable,
    latest: Latest,
    s3: Mapping[str, Any] | None,
) -> OldRows:
    """Find the old rows in the files that may have any of the keys."""
    if not meeting:
        return OldRows({}, has_newer=False)
    listed = listed_keys(latest, table, sum(found.bytes for found in meeting.values()))
    if listed is not None and latest.local is not None and _is_reached(form, s3):
        found = _find_in_memory(files, form, meeting.values(), table, latest.local, s3)
        if found is not None:
            return found
    return find_old_rows(there, table, latest, listed, "_file", "_pos")


def _find_in_memory(
    files: TableFiles,
    form: FileForm,
    meeting: Iterable[FoundFile],
    table: LakeTable,
    changes: pa.Table,
    s3: Mapping[str, Any] | None,
) -> OldRows | None:
    """Find the rows that have a key of some changes, in the driver (``find_old_rows``).

    Args:
        meeting: the files that may have such rows, together of some megabytes.
        changes: the last change of each key; the keys have types that ``key_match`` lists.
        s3: arguments of ``pyarrow.fs.S3FileSystem``; None: local folders.

    Returns:
        None if Spark must read a file.

    Raises:
        Py4JError: a deletion vector cannot be read.
    """
    types = {column.name: lake_type(column.type) for column in table.columns}
    schema = pa.schema([(name, types[name]) for name in table.key] + [(POSITION, pa.binary())])
    ids = [form.physical[name][1] for name in schema.names]
    system, parts = file_system(s3), []
    for found in meeting:
        path = pyarrow_path(found.path)
        if path is None or not found.has_only_vectors:
            return None
        try:
            rows, deleted = _columns(system, path, ids), files.deleted_rows(found)
        except (OSError, ValueError, pa.ArrowException):  # Spark reports what is wrong.
            return None
        if rows is None:
            return None
        rows = rows.rename_columns(schema.names).cast(schema)
        rows = rows.append_column(ROW, pa.array(np.arange(rows.num_rows)))
        for name in table.key:
            rows = rows.filter(pc.is_in(rows[name], changes[name].combine_chunks()))
        is_there = [row not in deleted for row in rows[ROW].to_pylist()]
        rows = rows.filter(pa.array(is_there, pa.bool_()))
        parts.append(rows.append_column(FILE, pa.repeat(found.path, rows.num_rows)))
    return OldRows(*matches(pa.concat_tables(parts), changes, table))


def _columns(system: fs.FileSystem, path: str, ids: Iterable[int | None]) -> pa.Table | None:
    """Read the columns with some ids; None if the file lacks one."""
    with system.open_input_file(path) as stream:
        file = pq.ParquetFile(pa.BufferReader(stream.read_buffer()))
    of_ids = {
        int(field.metadata[_FIELD_ID]): field.name
        for field in file.schema_arrow
        if field.metadata and _FIELD_ID in field.metadata
    }
    names = [of_ids.get(id_) for id_ in ids if id_ is not None]
    if None in names:
        return None
    return file.read(columns=names, use_threads=False).select(names)


def _is_reached(form: FileForm, s3: Mapping[str, Any] | None) -> bool:
    """Whether pyarrow opens the table's folder."""
    return form.folder is not None and (s3 is not None) == form.is_in_s3


def _written(
    latest: pa.Table,
    table: LakeTable,
    form: FileForm,
    delete_mode: DeleteMode,
    s3: Mapping[str, Any] | None,
) -> Sequence[ParquetFile] | None:
    """Write the rows of the table among some changes; None if columns have other types."""
    if form.folder is None or not _is_reached(form, s3):
        return None
    if delete_mode is DeleteMode.HARD:
        latest = latest.filter(pc.fill_null(pc.not_equal(latest[OPERATION], "d"), True))
    physical, elements = form.physical, form.elements
    target = target_of(table, (), form.folder, physical, form.indexed, elements=elements)
    work = Work((), (target,), s3=s3)
    try:
        found = write_rows(work, latest.select([column.name for column in target.columns]))
    except NotByColumns:
        return None
    return [ParquetFile(of["path"], of["bytes"], of["statistics"]) for of in found]
