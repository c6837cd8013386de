"""Lake tables as targets of the columnar decoder. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType

from tailrace_sink.columns.spec import Column, Target
from tailrace_sink.rows.writer_schema import WriterSchema, fields_of
from tailrace_sink.tables.lake_table import LakeTable


def target_of(
    table: LakeTable,
    writers: Sequence[WriterSchema],
    folder: str,
    physical: Mapping[str, tuple[str, int | None]],
    indexed: int,
    *,
    elements: Mapping[str, int] = MappingProxyType({}),
    last_only: bool = False,
    keeps_deletes: bool = False,
) -> Target:
    """Describe a lake table to the tasks that write into it.

    Args:
        writers: writer schemas of its messages.
        folder: of the table, as the tasks' file system names it.
        physical: by column the name and id in Parquet; missing: its own name, and no id.
        indexed: columns, from the first on, that get statistics.
        elements: id in Parquet of the elements of each column of lists.
        last_only: whether only the last change of each key is written.
        keeps_deletes: whether the last change of a deleted key is a row.
    """
    by_writer = {writer.schema_id: fields_of(table, writer.version) for writer in writers}
    columns = []
    for column in table.columns:
        fields = {
            schema_id: fields[column.column_id]
            for schema_id, fields in by_writer.items()
            if column.column_id in fields
        }
        name, field_id = physical.get(column.name, (column.name, None))
        large = column.is_large
        columns.append(Column(column.name, name, column.type, field_id, fields, large))
    for own, (type_, _) in table.cdc_columns.items():
        name, field_id = physical.get(own, (own, None))
        columns.append(Column(own, name, type_, field_id, element_id=elements.get(own)))
    key = table.key if last_only else ()
    return Target(folder, tuple(columns), indexed, key, keeps_deletes)
