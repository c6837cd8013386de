"""A lake table's rows with the log's tail applied, over Arrow columns.

The outcome is that of ``tailrace_sink.reading.tail_rows`` with Spark, and so that of the fold.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from tailrace.lake.keys import KeyIndex, columns_of, taken
from tailrace.lake.tail_events import decoded
from tailrace_schemas.position.change_position import ChangePosition
from tailrace_schemas.position.lsn import Lsn
from tailrace_sink.columns.arrow_values import cast, lake_type
from tailrace_sink.columns.change_columns import AVAILABLE
from tailrace_sink.columns.last_changes import LastChanges
from tailrace_sink.columns.spec import Target
from tailrace_sink.fold.table_batch import TableBatch
from tailrace_sink.options.modes import DeleteMode
from tailrace_sink.reading.tail_table import TableRows, following, of_source, versions
from tailrace_sink.tables.lake_table import LSN, OPERATION, POSITION, Kind, LakeTable
from tailrace_sink.tables.new_table import new_table
from tailrace_sink.tables.origins import ORIGIN, origin_values

_DELETE = "d"
Mask = npt.NDArray[np.bool_]


def with_tail(
    base: TableRows[pa.Table] | None,
    tail: TableBatch,
    values: pa.Table,
    deletes: str,
    cut_lsn: str,
    kind: Kind,
) -> TableRows[pa.Table]:
    """Compute the rows of one lake table after the changes of one source.

    Args:
        base: the table at the version of the commit row; None if it did not exist.
        tail: the table's part of the log's tail.
        values: events of the tail.

    Raises:
        UnsupportedSchemaChange: the table cannot follow the tail; the fold will stop it.
        NeedsSpark: only Spark casts a value.
    """
    is_hard = deletes != DeleteMode.SOFT
    if not tail.writers:
        # Its snapshot found no row.
        if base is None:
            raise ValueError("neither a table nor an event of it")
        table = of_source(base.table, tail)
        return TableRows(table, _all_deleted(base.rows, table, cut_lsn, is_hard=is_hard))
    known = new_table(versions(tail)[0], kind) if base is None else base.table
    table = following(known, tail)
    whole_from = None if kind.appends else tail.topic_range.whole_from
    changes, target = decoded(_without(values, whole_from), table, tail)
    names = [*(column.name for column in table.columns), *table.cdc_columns]
    rows = None if base is None else aligned(base.table, base.rows, table)
    if kind.appends:
        added = columns_of(changes, names)
        return TableRows(table, added if rows is None else _union(rows, added))
    latest = LastChanges(target, changes.schema).reduced(changes)
    if rows is None:
        return TableRows(table, columns_of(_there(latest, is_hard=is_hard), names))
    kept, changed = _merged(rows, latest, target, names)
    if whole_from is not None:
        kept = _all_deleted(kept, table, cut_lsn, is_hard=is_hard)
    return TableRows(table, _union(kept, _there(changed, is_hard=is_hard)))


def aligned(known: LakeTable, rows: pa.Table, table: LakeTable) -> pa.Table:
    """Convert rows to the columns of a later description of their table.

    Args:
        known: the description of the table that the rows follow.
    """
    names = table.names_in(known)
    found: dict[str, pa.ChunkedArray] = {}
    for column in table.columns:
        wanted = lake_type(column.type)
        name = names.get(column.column_id)
        found[column.name] = (
            pa.chunked_array([pa.nulls(rows.num_rows, wanted)])
            if name is None
            else _cast(rows[name], wanted)
        )
    mirrored = {column.name.lower() for column in known.columns}
    found |= {name: rows[name] for name in rows.column_names if name.lower() not in mirrored}
    return pa.table(list(found.values()), names=list(found))


def _merged(
    rows: pa.Table,
    latest: pa.Table,
    target: Target,
    names: Sequence[str],
) -> tuple[pa.Table, pa.Table]:
    """Return the rows without a change, and the changed ones with what their change lacks."""
    index = KeyIndex(columns_of(latest, target.key))
    numbers = index.find(columns_of(rows, target.key))
    is_changed = numbers >= 0
    before = np.full(index.count, -1, np.int64)
    before[numbers[is_changed]] = np.flatnonzero(is_changed)
    place_before = before[index.numbers]
    changed = columns_of(latest, names)
    values: dict[str, pa.ChunkedArray] = {}
    for number, column in enumerate(target.large):
        name = column.name
        old = taken(columns_of(rows, [name]), place_before)[name]
        has_value = latest[AVAILABLE.format(number)].is_valid()
        values[name] = pc.if_else(has_value, latest[name], old)
    changed = _replaced(changed, values)
    for name in rows.column_names:
        if name not in set(names):
            changed = changed.append_column(
                name, taken(columns_of(rows, [name]), place_before)[name]
            )
    return rows.filter(pa.array(~is_changed)), changed


def _there(rows: pa.Table, *, is_hard: bool) -> pa.Table:
    """Remove deleted rows, if deletes are hard."""
    return rows.filter(pc.not_equal(rows[OPERATION], _DELETE)) if is_hard else rows


def _all_deleted(rows: pa.Table, table: LakeTable, cut_lsn: str, *, is_hard: bool) -> pa.Table:
    """Delete all rows of the table's source."""
    own = own_rows(rows, table)
    if is_hard:
        return rows.filter(pa.array(~own))
    gone = pa.array(own & mask_of(pc.not_equal(rows[OPERATION], _DELETE)))
    position = ChangePosition.of_snapshot(Lsn.parse(cut_lsn)).to_bytes()
    values = {POSITION: position, LSN: cut_lsn, OPERATION: _DELETE}
    return _replaced(
        rows,
        {
            name: pc.if_else(gone, pa.scalar(value, rows.schema.field(name).type), rows[name])
            for name, value in values.items()
        },
    )


def own_rows(rows: pa.Table, table: LakeTable) -> Mask:
    """Whether each row is one of the table's source."""
    if table.origin is None:
        return np.ones(rows.num_rows, bool)
    return from_source(rows, origin_values(table.origin))


def from_source(rows: pa.Table, origin: Mapping[int, str]) -> Mask:
    """Whether each row has an origin."""
    found = np.ones(rows.num_rows, bool)
    for name, column_id in ORIGIN.items():
        found &= mask_of(pc.equal(rows[name], origin[column_id]))
    return found


def _without(values: pa.Table, from_offsets: Mapping[int, int] | None) -> pa.Table:
    """Remove the changes before a whole table, which replaces them."""
    for partition, first in (from_offsets or {}).items():
        is_before = (pc.field("partition") == partition) & (pc.field("offset") < first)
        values = values.filter(~is_before)
    return values


def _union(first: pa.Table, second: pa.Table) -> pa.Table:
    """Combine rows by the names of their columns; a column that one lacks is NULL there."""
    for field in first.schema:
        if field.name not in second.column_names:
            second = second.append_column(field, pa.nulls(second.num_rows, field.type))
    second = columns_of(second, first.column_names)
    return pa.concat_tables([first, second.cast(first.schema)])


def _replaced(rows: pa.Table, values: Mapping[str, pa.Array | pa.ChunkedArray]) -> pa.Table:
    for name, value in values.items():
        place = rows.column_names.index(name)
        rows = rows.set_column(place, rows.schema.field(place), value)
    return rows


def _cast(column: pa.ChunkedArray, wanted: pa.DataType) -> pa.ChunkedArray:
    return pa.chunked_array([cast(chunk, wanted) for chunk in column.chunks], wanted)


def mask_of(found: pa.ChunkedArray) -> Mask:
    """Return booleans as a numpy array; NULL is False."""
    mask: Mask = found.fill_null(False).to_numpy()
    return mask
