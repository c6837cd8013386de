"""Comparison of the log with the publisher's counts of a topic, cut by cut."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from tailrace.lake.tail_events import counted_by, reasons_of
from tailrace_schemas.topics.topic_names import TableName
from tailrace_sink.errors import BadRecord, ChangesUnknown
from tailrace_sink.plan.progress_record import SchemaById, decode_progress
from tailrace_sink.plan.topic_ranges import Counted
from tailrace_sink.reading.cut_id import CutId
from tailrace_sink.rows.writer_schema import WriterSchema

_NONE = Counted()


@dataclass(slots=True)
class _CutCounts:
    """What the publisher counted in one cut of the log, by partition."""

    lsn: str
    closed_lsn: str = ""
    partitions: dict[int, Counted] = field(default_factory=dict)


def good_of(
    values: pa.Table, writers: Sequence[WriterSchema], topic: str, refused_in: str | None
) -> pa.Array:
    """Whether each record is a change.

    Args:
        refused_in: name of the table whose bad records are refused; None: dead letters keep them.

    Raises:
        BadRecord: one is no change, and is refused.
    """
    reasons = reasons_of(values, writers, {})
    if refused_in is not None:
        places = zip(values["partition"].to_pylist(), values["offset"].to_pylist(), strict=True)
        for place, reason in sorted(zip(places, reasons, strict=True), key=lambda of: of[0]):
            if reason is not None:
                raise BadRecord(refused_in, (topic, *place), reason)
    return pa.array([reason is None for reason in reasons], pa.bool_())


def check_counts(
    names: tuple[TableName, str],
    progress: Sequence[Mapping[str, Any]],
    values: pa.Table,
    good: pa.Array,
    writers: Sequence[WriterSchema],
    schema_by_id: SchemaById,
    place: tuple[CutId | None, str],
) -> None:
    """Compare the log with the publisher's counts.

    Args:
        names: of the table and its topic.
        progress: batch, lsn and value of progress records.
        values: batch, partition and value of events.
        good: whether each event is a change.
        place: the cut after which cuts are compared, and the lake.

    Raises:
        ChangesUnknown: the log lacks changes, or has others.
    """
    (table, topic), (first, lake) = names, place
    counted = _counted(progress, topic, schema_by_id)
    every = counted_by(values, writers, "batch", "partition")
    of_good = every
    if not pc.all(good).as_py():
        of_good = counted_by(values.filter(good), writers, "batch", "partition")
    gaps = []
    for batch, cut in sorted(counted.items()):
        if first is not None and first.has_all_of(cut.closed_lsn, batch):
            continue
        for partition, expected in sorted(cut.partitions.items()):
            found, rest = (of.get((batch, partition), _NONE) for of in (every, of_good))
            is_right = expected in (found, rest)
            # Records of the publisher, some of which cannot be decoded any more.
            is_right = is_right or (rest.count < found.count == expected.count)
            if not is_right:
                gaps.append((cut.lsn, expected.count, found.count))
    if not gaps:
        return
    lsn, expected_count, there = gaps[0]
    held = f"{there} changes of table {table} where the publisher counted {expected_count}"
    if there == expected_count:
        held = f"other changes of table {table} than the publisher counted"
    raise ChangesUnknown(
        f"the log has {held}, in the cut at LSN {lsn}: records of topic {topic} were removed"
        " (compaction or retention) or written by somebody else before the sink read them."
        f" Fix: read the changes after LSN {gaps[-1][0]}, where the last such cut ends, and the"
        f" table at that LSN with as_of(lsn=...) of {lake}"
    )


def _counted(
    progress: Sequence[Mapping[str, Any]], topic: str, schema_by_id: SchemaById
) -> dict[int, _CutCounts]:
    found: dict[int, _CutCounts] = {}
    for row in progress:
        record = decode_progress(row["value"], schema_by_id)
        cut = found.setdefault(row["batch"], _CutCounts(row["lsn"]))
        # A record within a transaction repeats the LSN before, so the greatest of the cut counts.
        cut.closed_lsn = max(cut.closed_lsn, record.closed_lsn)
        for part in record.partitions:
            if part.topic == topic:
                known = cut.partitions.get(part.partition, _NONE)
                more = Counted(part.count, part.position_hash)
                cut.partitions[part.partition] = known.plus(more)
    return found
