"""How a table's changes are written: decided from what the ledger counts, before any is read.

A MERGE takes some ten Spark jobs, whatever its size; an append takes one. Pure.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum, auto

from tailrace_sink.options.config import DeleteMode
from tailrace_sink.plan.topic_ranges import TopicRange
from tailrace_sink.tables.lake_table import LakeTable


class Write(Enum):
    """A way to bring changes into a mirror."""

    APPEND = auto()
    """Every change as a row: none has a key that another one, or the table, has. Rows that left
    the source unseen may prove that wrong (``doubled_keys``)."""
    APPEND_DISTINCT = auto()
    """The same where keys do not repeat; that is not known yet."""
    APPEND_LATEST = auto()
    """The last change of each key: the table has no row."""
    APPEND_BESIDE = auto()
    """Every change as a row where keys do not repeat and the table has none between them."""
    MERGE = auto()


def way_to_write(ranges: TopicRange, table: LakeTable, delete_mode: DeleteMode) -> Write:
    """How to write a range of changes into a keyed table.

    A row of the source is created once. So where deleted keys leave the table (``hard``), a range
    of creates alone has no key that the table has. Snapshot rows may repeat keys: a table whose
    primary key was made anew begins its snapshot again, behind what was published of it. While a
    snapshot is applied in parts, the table may have rows that nobody knows to be deleted.

    Args:
        ranges: with the ledger's counts by operation; where a record came without, a MERGE is
            right whatever the changes are.
        table: as it is before the changes.
        delete_mode: as configured now; what the table says of earlier ones counts, too.
    """
    operations = ranges.operations
    only_creates = 0 < ranges.count == operations.creates
    only_reads = 0 < ranges.count == operations.reads
    if table.is_new:
        if only_creates:
            return Write.APPEND
        return Write.APPEND_DISTINCT if only_reads else Write.APPEND_LATEST
    no_deleted_keys = delete_mode is DeleteMode.HARD and table.deletes == DeleteMode.HARD
    if ranges.is_part:
        return Write.APPEND_BESIDE if only_reads else Write.MERGE
    if only_creates and no_deleted_keys and not ranges.is_whole:
        return Write.APPEND
    return Write.MERGE


def files_within(sizes: Sequence[int], bytes_max: int) -> int:
    """How many of some files, smallest first, are together not more than some bytes."""
    total = 0
    for index, size in enumerate(sizes):
        total += size
        if total > bytes_max:
            return index
    return len(sizes)
