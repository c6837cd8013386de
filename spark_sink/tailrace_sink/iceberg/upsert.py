"""Upserts: old rows leave a table and the last changes of their keys enter it, in one commit.

A change has its whole row. So only the place of the old row is needed, which one pass over keys and
positions finds. A MERGE of Spark takes several jobs for the same deletion vector and append.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame

from tailrace_sink.columns.avro_plan import NotByColumns
from tailrace_sink.columns.spec import Work
from tailrace_sink.columns.task_files import write_rows
from tailrace_sink.files.counted_files import CountedFiles
from tailrace_sink.files.old_rows import OldRows, find_old_rows, listed_keys
from tailrace_sink.files.parquet_files import FileForm, ParquetFile
from tailrace_sink.iceberg.table_files import TableFiles
from tailrace_sink.options.modes import DeleteMode
from tailrace_sink.ports.table_format import Latest
from tailrace_sink.rows.column_targets import target_of
from tailrace_sink.tables.key_bounds import exact_in
from tailrace_sink.tables.lake_table import OPERATION, LakeTable


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
    old = OldRows({}, has_newer=False)
    if meeting:
        size = sum(found.bytes for found in meeting.values())
        listed = listed_keys(latest, table, size)
        old = find_old_rows(there, table, latest, listed, "_file", "_pos")
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


def _written(
    latest: pa.Table,
    table: LakeTable,
    form: FileForm,
    delete_mode: DeleteMode,
    s3: Mapping[str, Any] | None,
) -> Sequence[ParquetFile] | None:
    """Write the rows of the table among some changes; None if columns have other types."""
    if form.folder is None or (s3 is None) == form.is_in_s3:
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
