"""Rows by their keys, over Arrow columns: what the ON of a MERGE does.

Keys are equal as in the sink's MERGE: NULL equals NULL, texts are compared by their bytes.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

Places = npt.NDArray[np.int64]


class KeyIndex:
    """Numbers the distinct keys of some rows.

    Args:
        keys: a column for each column of the key, in its order.

    Attributes:
        count: number of distinct keys.
        numbers: number of each row's key, from 0 on.
    """

    def __init__(self, keys: pa.Table) -> None:
        self._steps: list[tuple[pa.Array, Places]] = []
        numbers: Places = np.zeros(keys.num_rows, np.int64)
        for column in keys.columns:
            values = pc.unique(_plain(column))
            combined = numbers * len(values) + _places(column, values)
            known = np.unique(combined)
            numbers = np.searchsorted(known, combined).astype(np.int64)
            self._steps.append((values, known))
        self.numbers = numbers
        self.count = int(numbers.max(initial=-1)) + 1

    def find(self, keys: pa.Table) -> Places:
        """Return the number of each row's key; -1 if it is new."""
        numbers: Places = np.zeros(keys.num_rows, np.int64)
        if not self.count:
            return numbers - 1
        for column, (values, known) in zip(keys.columns, self._steps, strict=True):
            places = _places(column, values)
            combined = numbers * len(values) + places
            at = np.minimum(np.searchsorted(known, combined), len(known) - 1)
            is_known = (numbers >= 0) & (places >= 0) & (known[at] == combined)
            numbers = np.where(is_known, at, -1).astype(np.int64)
        return numbers


def taken(rows: pa.Table, places: Places) -> pa.Table:
    """Return rows by their places; NULL in all columns where the place is -1."""
    return rows.take(pa.array(places, mask=places < 0))


def columns_of(rows: pa.Table, names: Sequence[str]) -> pa.Table:
    """Return some columns; names may have any character."""
    return pa.table([rows[name] for name in names], names=list(names))


def _plain(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Make equal numbers equal bytes: zero has two forms as a float."""
    return pc.add(column, 0.0) if pa.types.is_floating(column.type) else column


def _places(column: pa.ChunkedArray, values: pa.Array) -> Places:
    found = pc.index_in(_plain(column), values)
    places: Places = found.fill_null(-1).to_numpy().astype(np.int64)
    return places
