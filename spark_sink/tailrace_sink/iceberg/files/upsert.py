"""Upserts: old rows leave a table and the last changes of their keys enter it, in one commit.

A change has its whole row. So only the place of the old row is needed, which one pass over keys and
positions finds. The driver does it in a small table, otherwise a job of Spark. A MERGE takes
several jobs for the same deletion vector and append.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import fs
from pyspark.sql import DataFrame

from tailrace_sink.columns.avro_plan import NotByColumns
from tailrace_sink.columns.spec import Work
from tailrace_sink.columns.task_files import file_system, write_rows
from tailrace_sink.files.counted_files import CountedFiles
from tailrace_sink.files.old_rows import LISTED_BYTES_MAX, OldRows, find_old_rows, listed_keys
from tailrace_sink.files.parquet_files import FileForm, ParquetFile
from tailrace_sink.iceberg.files.found_files import FoundFile
from tailrace_sink.iceberg.files.rows_in_memory import find_in_memory
from tailrace_sink.iceberg.files.table_files import TableFiles
from tailrace_sink.options.modes import DeleteMode
from tailrace_sink.ports.writes import Latest
from tailrace_sink.rows.column_targets import target_of
from tailrace_sink.tables.key_bounds import exact_in
from tailrace_sink.tables.lake_table import OPERATION, LakeTable


def upsert(
    files: TableFiles,
    there: Callable[[], DataFrame],
    table: LakeTable,
    latest: Latest,
    delete_mode: DeleteMode,
    s3: Mapping[str, Any] | None,
) -> bool:
    """Apply the last change of each key to the branch of a table, in one commit.

    Args:
        there: returns the rows of the branch, in a session of this thread only.
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
    if latest.lacks_values():
        return False
    meeting = {found.path: found for found in _meeting(files, table, latest)}
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


def _meeting(files: TableFiles, table: LakeTable, latest: Latest) -> Sequence[FoundFile]:
    """Select the files that may have any of the keys: of a small table all, as they are known."""
    local = latest.local
    every = None if local is None else files.of_small_table(LISTED_BYTES_MAX)
    if every is not None:
        return every
    return files.meeting(latest.exact or ([] if local is None else exact_in(local, table)))


def _old_rows(
    files: TableFiles,
    form: FileForm,
    meeting: Mapping[str, FoundFile],
    there: Callable[[], DataFrame],
    table: LakeTable,
    latest: Latest,
    s3: Mapping[str, Any] | None,
) -> OldRows:
    """Find the old rows in the files that may have any of the keys."""
    if not meeting:
        return OldRows({}, has_newer=False)
    listed = listed_keys(latest, table, sum(found.bytes for found in meeting.values()))
    if listed is not None and latest.local is not None and _is_reached(form, s3):
        found = find_in_memory(meeting.values(), files.io, form, table, latest.local, s3)
        if found is not None:
            return found
    return find_old_rows(there(), table, latest, listed, "_file", "_pos")


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
    system = file_system(s3)
    return [_with_content(system, form.folder, of) for of in found]


def _with_content(system: fs.FileSystem, folder: str, of: Mapping[str, Any]) -> ParquetFile:
    """Return a written file with its bytes: Hadoop would take longer to read the footer."""
    with system.open_input_file(f"{folder}/{of['path']}") as stream:
        content = stream.read()
    return ParquetFile(of["path"], of["bytes"], of["statistics"], content)
