"""The rows of changes: both images of an event as structs, and the sink's own columns."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from tailrace.lake.tail_events import decode
from tailrace_schemas.events.column_types import lake_type as sql_type_of
from tailrace_schemas.topics.topic_names import TableName
from tailrace_sink.columns.arrow_values import lake_type
from tailrace_sink.columns.spec import Column, Target, Work
from tailrace_sink.reading.cut_id import CutId
from tailrace_sink.rows.column_targets import fields_in, version_in, writers_of
from tailrace_sink.rows.writer_schema import WriterSchema
from tailrace_sink.tables.lake_table import (
    CHANGED,
    CHANGES_COLUMNS,
    COMMIT_TIME,
    LSN,
    OPERATION,
    POSITION,
    LakeColumn,
    LakeTable,
)
from tailrace_sink.tables.origins import ORIGIN, origin_values
from tailrace_sink.tables.type_widening import Widening, widening

OWN: Final = (OPERATION, LSN, COMMIT_TIME, CHANGED, POSITION)
"""The sink's own columns of a change, in their order."""
_IMAGES: Final = ("before", "after")


@dataclass(frozen=True, slots=True)
class ChangeTable:
    """A table whose changes are read, with the columns of both images.

    Attributes:
        columns: of the images; those of the origin as well, if the table has several sources.
        schema_ids: writer schemas that the columns hold.
    """

    columns: LakeTable
    schema_ids: frozenset[int]

    @property
    def name(self) -> TableName:
        """Name of the source table, or of the lake table of several."""
        return self.columns.table

    @property
    def arrow_schema(self) -> pa.Schema:
        """The columns of a change."""
        origin = [pa.field(c.name, pa.string()) for c in self.columns.columns if c.is_origin]
        images = [pa.field(image, pa.struct(_fields(self.columns))) for image in _IMAGES]
        own = [pa.field(name, lake_type(CHANGES_COLUMNS[name][0])) for name in OWN]
        return pa.schema([*origin, *images, *own])

    def new_columns(self, writers: Iterable[WriterSchema]) -> list[str]:
        """Return what the columns lack of later schema versions: name and type of each column."""
        found: list[str] = []
        for writer in writers:
            if writer.schema_id in self.schema_ids:
                continue
            for column in version_in(self.columns, writer).columns:
                holder = self.columns.holder_of(column)
                wanted = sql_type_of(column.type, lossless=column.lossless)
                if holder is None or widening(holder.type, wanted) is not Widening.HOLDS:
                    found.append(f"{column.name} {column.type}")
        return found


def change_rows(
    values: pa.Table,
    source: TableName,
    writers: Sequence[WriterSchema],
    columns: LakeTable,
    between: tuple[CutId | None, CutId],
) -> pa.Table:
    """Decode the changes of a source table.

    Args:
        values: columns ``batch`` and ``value`` without tombstones, of no batch after the last cut.
        between: cuts after which, and up to which, changes are wanted.

    Raises:
        NeedsSpark: only Spark casts a value.
    """
    first, end = between
    work = Work(writers_of(writers), (_target(columns, writers),), None, end.lsn)
    if first is None:
        rows = decode(values, work, str(source))
    else:
        # What a later batch brought is a change of the range, whatever its LSN.
        is_known = pc.field("batch") <= first.batch
        known, later = values.filter(is_known), values.filter(~is_known)
        since = replace(work, after_lsn=first.lsn)
        rows = pa.concat_tables(
            [decode(known, since, str(source)), decode(later, work, str(source))]
        )
    rows = rows.filter(pc.not_equal(rows[OPERATION], "r"))
    images = {image: _struct(rows, image, columns) for image in _IMAGES}
    return pa.table({**images, **{name: rows[name] for name in OWN}})


def with_origin(changes: pa.Table, source: TableName) -> pa.Table:
    """Put the origin before the changes of one of several source tables."""
    values = origin_values(source)
    origin = {
        name: pa.repeat(pa.scalar(values[id_]), changes.num_rows) for name, id_ in ORIGIN.items()
    }
    return pa.table({**origin, **{name: changes[name] for name in changes.column_names}})


def _target(columns: LakeTable, writers: Sequence[WriterSchema]) -> Target:
    """Describe both images of a change as columns, with their presence."""
    by_writer = fields_in(columns, writers)
    found: list[Column] = []
    for image in _IMAGES:
        found.append(Column(image, image, "BOOLEAN", image=image, is_presence=True))
        for place, column in enumerate(_mirrored(columns)):
            fields = {
                schema_id: of[column.column_id]
                for schema_id, of in by_writer.items()
                if column.column_id in of
            }
            name = f"{image}.{place}"
            found.append(Column(name, name, column.type, fields=fields, image=image))
    own = (Column(name, name, type_) for name, (type_, _) in CHANGES_COLUMNS.items())
    return Target("", (*found, *own), 0)


def _mirrored(columns: LakeTable) -> list[LakeColumn]:
    return [column for column in columns.columns if not column.is_origin]


def _fields(columns: LakeTable) -> list[pa.Field]:
    return [pa.field(column.name, lake_type(column.type)) for column in _mirrored(columns)]


def _struct(rows: pa.Table, image: str, columns: LakeTable) -> pa.StructArray:
    """Combine the columns of an image; NULL where a change has none."""
    fields = _fields(columns)
    arrays = [rows[f"{image}.{place}"].combine_chunks() for place in range(len(fields))]
    is_missing = pc.invert(rows[image].combine_chunks())
    return pa.StructArray.from_arrays(arrays, fields=fields, mask=is_missing)
