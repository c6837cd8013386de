"""Choice between append and MERGE by the ledger's counts, before any change is read. Pure.

A MERGE takes about ten Spark jobs, whatever its size; an append takes one.
"""

from __future__ import annotations

from enum import Enum, auto

from tailrace_sink.options.modes import DeleteMode
from tailrace_sink.plan.topic_ranges import TopicRange
from tailrace_sink.tables.lake_table import LakeTable


class Write(Enum):
    """A way to write changes into a mirror."""

    APPEND = auto()
    """Append every change as a row: all keys are new, unless rows left the source unseen
    (``doubled_keys``)."""
    APPEND_DISTINCT = auto()
    """Append every change, if no key repeats: the keys in the written files are compared."""
    APPEND_LATEST = auto()
    """Append the last change of each key: the table has no rows."""
    APPEND_BESIDE = auto()
    """The same, and the table must have no key between them."""
    MERGE = auto()


def way_to_write(ranges: TopicRange, table: LakeTable, delete_mode: DeleteMode) -> Write:
    """Choose how to write a range of changes into a keyed table.

    The source creates a row once. If deleted keys leave the table (``hard``), a range that holds
    only creates has only new keys. Snapshot rows may repeat keys: a table with a new primary key
    starts its snapshot again after rows were published. While a snapshot is applied in parts, the
    table may have rows that the source has lost.

    Args:
        ranges: with the ledger's counts by operation; without them, a MERGE is right.
        table: its state before the changes.
        delete_mode: the configured one; earlier modes are read from the table.
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
