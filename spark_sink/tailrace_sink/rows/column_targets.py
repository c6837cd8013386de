"""Descriptions of lake tables and writer schemas for the columnar decoder. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType

from tailrace_schemas.events.envelope import TableSchema
from tailrace_sink.columns.spec import Column, Target, Writer
from tailrace_sink.rows.writer_schema import WriterSchema, fields_of
from tailrace_sink.tables.lake_table import LakeTable
from tailrace_sink.tables.origins import in_shared_table, origin_values


def writers_of(
    writers: Iterable[WriterSchema], others: Iterable[WriterSchema] = ()
) -> tuple[Writer, ...]:
    """Describe writer schemas to the tasks.

    Args:
        others: those of other tables in the same topic.
    """
    return (
        *(Writer(writer.schema_id, writer.avro) for writer in writers),
        *(Writer(writer.schema_id, writer.avro, is_other=True) for writer in others),
    )


def fields_in(table: LakeTable, writers: Iterable[WriterSchema]) -> dict[int, dict[int, str]]:
    """Map the schema id of each writer to what ``fields_of`` returns."""
    return {w.schema_id: fields_of(table, version_in(table, w)) for w in writers}


def version_in(table: LakeTable, writer: WriterSchema) -> TableSchema:
    """Describe a writer schema in the terms of a lake table, which its table may share."""
    version = writer.version
    return in_shared_table(version, table.table) if table.is_shared else version


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
    by_writer = fields_in(table, writers)
    sources = {writer.schema_id: origin_values(writer.version.table) for writer in writers}
    columns = []
    for column in table.columns:
        id_ = column.column_id
        fields = {writer: fields[id_] for writer, fields in by_writer.items() if id_ in fields}
        origins = {}
        if column.is_origin:
            fields, origins = {}, {writer: of[id_] for writer, of in sources.items()}
        name, field_id = physical.get(column.name, (column.name, None))
        columns.append(
            Column(
                column.name,
                name,
                column.type,
                field_id,
                fields,
                is_large=column.is_large,
                is_key=bool(column.key_ordinal),
                origins=origins,
            )
        )
    for own, (type_, _) in table.cdc_columns.items():
        name, field_id = physical.get(own, (own, None))
        columns.append(Column(own, name, type_, field_id, element_id=elements.get(own)))
    key = table.key if last_only else ()
    return Target(folder, tuple(columns), indexed, key, keeps_deletes)
