"""Cuts that went straight from Kafka into the tables: the log names them and lacks their events."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tailrace_schemas.topics.topic_names import TableName
from tailrace_sink.errors import ChangesUnknown
from tailrace_sink.plan.cut_plan import LogRange
from tailrace_sink.plan.log_state import LogState
from tailrace_sink.reading.cut_id import CutId
from tailrace_sink.tables.lake_table import Kind, table_path

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


@dataclass(frozen=True, slots=True)
class BulkCut:
    """A cut whose events were not copied into the log.

    Attributes:
        ranges: what it has of each topic.
    """

    batch: int
    lsn: str
    ranges: Mapping[str, LogRange]


def bulk_cuts(states: DataFrame) -> list[BulkCut]:
    """Read the bulk cuts from the state rows of a log, the oldest first."""
    rows = states.where("get_json_object(state, '$.in_kafka') <> '{}'").select("state").collect()
    return bulk_cuts_of(LogState.of_json(row["state"]) for row in rows)


def bulk_cuts_of(found: Iterable[LogState]) -> list[BulkCut]:
    """Select the bulk cuts among states of a log, the oldest first."""
    cuts = [
        BulkCut(of.state.batch, of.state.closed_lsn, of.in_kafka) for of in found if of.in_kafka
    ]
    return sorted(cuts, key=lambda cut: cut.batch)


def refuse_bulk(cuts: Iterable[BulkCut], table: TableName, topic: str, after: CutId | None) -> None:
    """Refuse a range of changes some of which were not copied into the log.

    Snapshot rows are no changes, so a bulk cut of these alone is none of the range's business.

    Args:
        after: after which the range starts; None: the start of the log.

    Raises:
        ChangesUnknown: a bulk cut has changes of the table.
    """
    lacking = [
        cut
        for cut in cuts
        if (after is None or not after.has_all_of(cut.lsn, cut.batch))
        and topic in cut.ranges
        and _changes(cut.ranges[topic]) > 0
    ]
    if not lacking:
        return
    last = lacking[-1]
    count = sum(_changes(cut.ranges[topic]) for cut in lacking)
    raise ChangesUnknown(
        f"{count} changes of table {table} up to LSN {last.lsn} went straight into the tables in"
        " bulk, so the log lacks them. Fix: read the changes after that LSN, or those in"
        f" {table_path(table, Kind.CHANGES)} if sink.changelog selects the table. With"
        " sink.bulk_changes: 0 the log gets every change"
    )


def _changes(found: LogRange) -> int:
    return found.count - found.rows
