"""The last change of each key, among the changes that one task reads.

It has the outcome of ``rows.last_change`` (tests/property/test_last_changes.py): a large value that
the last change lacks is the last one that any change has.

A reduction may be reduced again, with further changes. So a task holds few rows of many changes.
"""

from __future__ import annotations

from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tailrace_sink.columns.change_columns import AVAILABLE
from tailrace_sink.columns.cursor import Numbers
from tailrace_sink.columns.positions import BYTES
from tailrace_sink.columns.spec import Target

_WORD: Final = 8
_NO_POSITION: Final = bytes(BYTES)
POSITION: Final = "_cdc_position"
OPERATION: Final = "_cdc_op"


class LastChanges:
    """Reduces changes of a table with a key. Pure.

    Args:
        target: gets the last change of each key.
        schema: that of the changes (``ChangeDecoder.schemas``).
    """

    def __init__(self, target: Target, schema: pa.Schema) -> None:
        self._schema = schema
        places = {column.name: place for place, column in enumerate(target.columns)}
        self._key = [places[name] for name in target.key]
        self._position, self._operation = places[POSITION], places[OPERATION]
        self._large = [places[column.name] for column in target.large]
        self._available = [
            schema.get_field_index(AVAILABLE.format(number)) for number in range(len(self._large))
        ]
        self._keeps_deletes = target.keeps_deletes

    def reduced(self, changes: pa.Table) -> pa.Table:
        """Return the last change of each key, in the order of the changes.

        Of changes with the same position the later one is the last.
        """
        if not changes.num_rows:
            return changes
        changes = changes.combine_chunks()
        ordered = [_ordered(changes.column(place)) for place in (self._position, *self._available)]
        keys = [changes.column(place) for place in self._key]
        names = [f"key{number}" for number in range(len(keys))]
        ranks = [f"rank{number}" for number in range(len(ordered))]
        columns = [*keys, *(rank for _, rank in ordered)]
        groups = pa.table(columns, names=[*names, *ranks]).group_by(names, use_threads=False)
        found = groups.aggregate([(name, "max") for name in ranks])
        if found.num_rows == changes.num_rows:
            return changes
        last = ordered[0][0][found["rank0_max"].to_numpy()]
        turn = np.argsort(last)
        reduced = changes.take(pa.array(last[turn]))
        turned = pa.array(turn)
        for number, (place, available) in enumerate(zip(self._large, self._available, strict=True)):
            rank = found[f"rank{number + 1}_max"].take(turned)
            rows = pc.take(pa.array(ordered[number + 1][0]), rank)
            for column in (place, available):
                field, values = self._schema.field(column), changes.column(column).take(rows)
                reduced = reduced.set_column(column, field, values)
        return reduced

    def parted(self, reduced: pa.Table) -> tuple[pa.Table, pa.Table, int]:
        """Part reduced changes.

        Returns:
            The rows of the table. Then the other changes: deletes that are no rows, and changes
            that lack large values. Then how many lack them.
        """
        is_row = np.ones(reduced.num_rows, bool)
        if not self._keeps_deletes:
            deleted = pc.equal(reduced.column(self._operation), "d")
            is_row = ~pc.fill_null(deleted, False).to_numpy()
        has_all = np.ones(reduced.num_rows, bool)
        for place in self._available:
            has_all &= reduced.column(place).is_valid().to_numpy()
        lacking = int((is_row & ~has_all).sum())
        if len(has_all) == (is_row & has_all).sum():
            return self._without_flags(reduced), reduced.slice(0, 0), 0
        rows = pa.array(is_row & has_all)
        return self._without_flags(reduced.filter(rows)), reduced.filter(pc.invert(rows)), lacking

    def _without_flags(self, rows: pa.Table) -> pa.Table:
        return rows.select(range(rows.num_columns - len(self._available)))


def _ordered(positions: pa.ChunkedArray) -> tuple[Numbers, pa.Array]:
    """Return the rows in the order of positions, and the rank of each row; NULL has none."""
    is_there = positions.is_valid().to_numpy()
    filled = pc.fill_null(positions, _NO_POSITION).combine_chunks()
    _, offsets, data = filled.buffers()
    first, count = int(np.frombuffer(offsets, np.int32)[filled.offset]), len(filled)
    digits = np.frombuffer(data, np.uint8, count * BYTES, first)
    padded = np.zeros((count, -(-BYTES // _WORD) * _WORD), np.uint8)
    padded[:, :BYTES] = digits.reshape(-1, BYTES)
    words = padded.view(f">u{_WORD}").astype(np.uint64)
    unequal = [word for word in words.T[::-1] if (word != word[:1]).any()]
    order = np.lexsort(unequal) if unequal else np.arange(count)
    ranks = np.empty(count, np.int64)
    ranks[order] = np.arange(count)
    return order, pa.array(ranks, mask=~is_there)
