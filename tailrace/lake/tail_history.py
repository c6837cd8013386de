"""Validity intervals with the log's tail applied, over Arrow columns.

The outcome is that of ``tailrace_sink.rows.intervals``, whose header has the order of the changes
of a key. Only keys that the tail changes are looked at one by one.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from itertools import groupby
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from tailrace.lake.keys import KeyIndex, columns_of
from tailrace.lake.tail_events import decoded
from tailrace.lake.tail_rows import aligned, mask_of, own_rows
from tailrace_sink.columns.change_columns import AVAILABLE
from tailrace_sink.columns.spec import Target
from tailrace_sink.fold.table_batch import TableBatch
from tailrace_sink.plan.sink_state import CutPoint
from tailrace_sink.reading.tail_table import TableRows, following, of_source
from tailrace_sink.tables.lake_table import (
    COMMIT_TIME,
    CURRENT,
    LSN,
    OPERATION,
    OWN_COLUMNS,
    POSITION,
    VALID_FROM,
    VALID_FROM_LSN,
    VALID_TO,
    VALID_TO_LSN,
    Kind,
    LakeTable,
)

_DELETE: Final = "d"
_READ: Final = "r"
_UPDATE: Final = "u"


@dataclass(slots=True)
class _Change:
    """A change of a key, or the row that opened its current interval.

    Attributes:
        values: of the table's columns, by name.
        lacks: names of large columns whose value the change does not have; all of a delete.
    """

    number: int
    is_known: bool
    values: dict[str, Any]
    lsn: str
    position: bytes
    operation: str
    committed: Any
    lacks: frozenset[str] = frozenset()

    @property
    def is_from_snapshot(self) -> bool:
        return self.position[-1] == 0

    @property
    def place(self) -> tuple[Any, ...]:
        return self.number, not self.is_known, self.lsn, self.is_from_snapshot, self.position


def history_with_tail(
    base: TableRows[pa.Table],
    tail: TableBatch,
    values: pa.Table,
    rows: pa.Table | None,
    cut: CutPoint,
) -> TableRows[pa.Table]:
    """Compute the validity intervals of one table after the changes of one source.

    Args:
        base: the history table at the version of the commit row.
        tail: the table's part of the log's tail.
        values: events of the tail.
        rows: the source's rows at the cut, if the tail has the whole table.

    Raises:
        UnsupportedSchemaChange: the table cannot follow the tail; the fold will stop it.
        NeedsSpark: only Spark casts a value.
    """
    table = of_source(base.table, tail)
    if tail.writers:
        table = following(table, tail)
    every = aligned(base.table, base.rows, table)
    every = columns_of(every, [*(column.name for column in table.columns), *table.cdc_columns])
    if tail.writers:
        every = _with_changes(
            every, table, *decoded(values, replace(table, kind=Kind.MIRROR), tail)
        )
    if rows is not None:
        every = _without_gone(every, rows, table, cut)
    return TableRows(table, every)


def _with_changes(every: pa.Table, table: LakeTable, changes: pa.Table, target: Target) -> pa.Table:
    index = KeyIndex(columns_of(changes, table.key))
    numbers = index.find(columns_of(every, table.key))
    is_known = (numbers >= 0) & mask_of(every[CURRENT]) & own_rows(every, table)
    known = every.filter(pa.array(is_known))
    found = sorted(
        [*_known(known, numbers[is_known].tolist()), *_changes(changes, index, target)],
        key=lambda change: change.place,
    )
    compared = [
        c.name for c in table.columns if c.column_id > 0 and c.column_id not in table.dropped
    ]
    large = [column.name for column in target.large]
    opened = [
        interval
        for _, of_key in groupby(found, key=lambda change: change.number)
        for interval in _intervals(list(of_key), compared, large)
    ]
    kept = every.filter(pa.array(~is_known))
    return pa.concat_tables([kept, pa.Table.from_pylist(opened, schema=kept.schema)])


def _known(rows: pa.Table, numbers: Sequence[int]) -> Iterator[_Change]:
    """Return the current rows as the changes that opened them."""
    for number, row in zip(numbers, rows.to_pylist(), strict=True):
        yield _Change(
            number,
            True,
            row,
            row[VALID_FROM_LSN],
            row[POSITION],
            row[OPERATION],
            row[VALID_FROM],
        )


def _changes(changes: pa.Table, index: KeyIndex, target: Target) -> Iterator[_Change]:
    for number, row in zip(index.numbers.tolist(), changes.to_pylist(), strict=True):
        flags = (row[AVAILABLE.format(place)] for place in range(len(target.large)))
        pairs = zip(target.large, flags, strict=True)
        lacks = frozenset(column.name for column, position in pairs if position is None)
        values = {c.name: row[c.name] for c in target.columns if c.name not in OWN_COLUMNS}
        own = (row[LSN], row[POSITION], row[OPERATION], row[COMMIT_TIME])
        yield _Change(number, False, values, *own, lacks)


def _intervals(
    changes: Sequence[_Change], compared: Sequence[str], large: Sequence[str]
) -> Iterator[dict[str, Any]]:
    """Return the intervals of one key, from its changes in order."""
    kept: list[_Change] = []
    before: _Change | None = None
    known = changes[0] if changes[0].is_known else None
    latest: dict[str, Any] = dict.fromkeys(large)
    for change in changes:
        if known is not None and not change.is_known and _is_older(change, known):
            continue
        for name in large:
            if name not in change.lacks:
                latest[name] = change.values[name]
            change.values[name] = latest[name]
        if not _is_same(change, before, compared):
            kept.append(change)
        before = change
    for change, following_one in zip(kept, [*kept[1:], None], strict=True):
        if change.operation == _DELETE:
            continue
        yield {
            **change.values,
            POSITION: change.position,
            OPERATION: change.operation,
            VALID_FROM_LSN: change.lsn,
            VALID_TO_LSN: None if following_one is None else following_one.lsn,
            VALID_FROM: change.committed,
            VALID_TO: None if following_one is None else following_one.committed,
            CURRENT: following_one is None,
        }


def _is_older(change: _Change, known: _Change) -> bool:
    """Whether the current interval includes a change."""
    if change.lsn != known.lsn:
        return change.lsn < known.lsn
    is_before = known.is_from_snapshot or change.position <= known.position
    return not change.is_from_snapshot and is_before


def _is_same(change: _Change, before: _Change | None, compared: Sequence[str]) -> bool:
    """Whether a snapshot or a patch read a row that was there already."""
    is_patch = change.operation == _UPDATE and change.is_from_snapshot
    if change.is_known or before is None or not (change.operation == _READ or is_patch):
        return False
    if before.operation == _DELETE:
        return False
    return all(change.values[name] == before.values[name] for name in compared)


def _without_gone(every: pa.Table, rows: pa.Table, table: LakeTable, cut: CutPoint) -> pa.Table:
    """Close, at a cut, the current intervals of keys that the source no longer has."""
    there = rows.filter(pc.not_equal(rows[OPERATION], _DELETE))
    numbers = KeyIndex(columns_of(there, table.key)).find(columns_of(every, table.key))
    gone = mask_of(every[CURRENT]) & own_rows(every, table) & (numbers < 0)
    committed = None if cut.commit_ms is None else datetime.fromtimestamp(cut.commit_ms / 1000, UTC)
    ends = {VALID_TO_LSN: cut.lsn, VALID_TO: committed, CURRENT: False}
    for name, end in ends.items():
        place = every.column_names.index(name)
        field = every.schema.field(place)
        value = pc.if_else(pa.array(gone), pa.scalar(end, field.type), every[name])
        every = every.set_column(place, field, value)
    return every
