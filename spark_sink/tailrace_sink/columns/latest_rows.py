"""The last change of each key among the messages of one task.

All events of a key are in one partition. So tasks that read whole partitions leave one row of each
key, and nothing is exchanged between tasks. Whether that holds is checked afterwards: keys may
repeat if a partition is split, or if a task's rows exceed its memory.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Final

import numpy as np
import pyarrow as pa

from tailrace_sink.columns.change_columns import ChangeDecoder
from tailrace_sink.columns.cursor import Numbers
from tailrace_sink.columns.positions import BYTES
from tailrace_sink.columns.spec import Work

CHANGES: Final = "_cdc_changes"
HASHES: Final = "_cdc_hashes"
"""Columns of the one row of a task that has its counts and nothing else."""
REDUCE_ROWS: Final = 200_000
_HELD_BYTES: Final = 128 * 1024 * 1024
_BATCH_ROWS: Final = 20_000


def latest_of_task(
    work: Work,
    key: Sequence[str],
    position: str,
    batches: Iterable[pa.RecordBatch],
    reduce_rows: int = REDUCE_ROWS,
) -> Iterator[pa.RecordBatch]:
    """Decode the messages of one task, and reduce them to the last change of each key.

    Args:
        work: with one target, whose columns are not renamed.
        key: names of the key columns.
        position: name of the column with the position.
        batches: with the column ``value``.
        reduce_rows: changes that are held before they are reduced.

    Returns:
        The target's columns, :data:`CHANGES` and :data:`HASHES`.

    Raises:
        Undecodable: a message is no change of the table.
    """
    decoder = ChangeDecoder(work)
    (schema,) = decoder.schemas
    changes = hashes = 0
    held = schema.empty_table()
    waiting: list[pa.RecordBatch] = []
    for batch in batches:
        decoded = decoder.decode(batch.column(0))
        changes += decoded.count
        hashes += decoded.hashes
        waiting += decoded.rows[0]
        if sum(rows.num_rows for rows in waiting) >= reduce_rows:
            held, waiting = _reduced(held, waiting, key, position), []
            if held.nbytes > _HELD_BYTES:
                yield from _counted(held, None)
                held = schema.empty_table()
    yield from _counted(_reduced(held, waiting, key, position), None)
    counts = pa.Table.from_arrays([pa.nulls(1, field.type) for field in schema], schema=schema)
    yield from _counted(counts, (changes, hashes))


def _reduced(
    held: pa.Table, waiting: Sequence[pa.RecordBatch], key: Sequence[str], position: str
) -> pa.Table:
    rows = pa.concat_tables([held, pa.Table.from_batches(waiting, held.schema)]).combine_chunks()
    if not rows.num_rows:
        return rows
    order = _order(rows[position].combine_chunks())
    if order is not None:
        rows = rows.take(pa.array(order))
    numbered = rows.select(list(key)).append_column("", pa.array(np.arange(rows.num_rows)))
    last = numbered.group_by(list(key), use_threads=False).aggregate([("", "max")])
    return rows.take(pa.array(np.sort(last["_max"].to_numpy())))


def _order(positions: pa.Array) -> Numbers | None:
    """Return the order of positions; None if they are in order."""
    if isinstance(positions, pa.ChunkedArray):
        positions = positions.combine_chunks()
    offsets = np.frombuffer(positions.buffers()[1], np.int32)
    first = int(offsets[positions.offset])
    data = np.frombuffer(positions.buffers()[2], np.uint8)
    packed = data[first : first + BYTES * len(positions)].reshape(-1, BYTES)
    words = [
        np.ascontiguousarray(packed[:, at : at + 8]).view(">u8").reshape(-1) for at in (0, 8, 16)
    ]
    words.append(packed[:, 24])
    falls = np.zeros(len(packed) - 1, bool)
    for word in reversed(words):
        falls = (word[1:] < word[:-1]) | ((word[1:] == word[:-1]) & falls)
    if not falls.any():
        return None
    order: Numbers = np.lexsort(tuple(reversed(words)))
    return order


def _counted(rows: pa.Table, counts: tuple[int, int] | None) -> Iterator[pa.RecordBatch]:
    numbers = (None, None) if counts is None else counts
    for name, number in zip((CHANGES, HASHES), numbers, strict=True):
        column = pa.array([number], pa.int64()) if counts else pa.nulls(rows.num_rows, pa.int64())
        rows = rows.append_column(name, column)
    yield from rows.to_batches(_BATCH_ROWS)
