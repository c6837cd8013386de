"""Decide which capture instances hold a table's changes, and from which LSN on.

A table's record stores ``covers_from``: from this LSN on, its changes are held without a gap. The
capture instance that the table started with holds them from there. Each newer instance holds them
from the low watermark that it had when it was first seen. All functions here are pure.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, field, replace
from typing import Final

from tailrace_publisher.change.instance import CaptureInstance
from tailrace_publisher.daemon.tables.table_record import TableRecord
from tailrace_publisher.daemon.tables.table_state import PUBLISHED, TableState
from tailrace_publisher.errors import PositionExpired
from tailrace_publisher.source.catalog.added_columns import CAPTURES_ALL, Uncaptured
from tailrace_publisher.source.catalog.next_instance import lacks_change
from tailrace_publisher.source.catalog.table_instances import TableInstances, choose_instance
from tailrace_publisher.source.catalog.versions import version_at
from tailrace_publisher.source.log.loss import check_position_held
from tailrace_schemas.events.envelope import TableSchema
from tailrace_schemas.position.lsn import Lsn
from tailrace_schemas.topics.topic_names import TableName

_BEFORE_SNAPSHOT: Final = frozenset({TableState.PENDING, TableState.HALTED})


@dataclass(slots=True)
class PublishedTable:
    """A table with everything that its rows need.

    Attributes:
        instances: its capture instances, ordered by ``covers``.
        versions: schema versions of each recognised capture instance, oldest first; empty while
            nothing is read.
        covers: for each recognised capture instance the LSN from which on it holds the table's
            changes.
        object_ids: object ids of the instances' change tables at the last refresh. An instance that
            was disabled and created again under the same name has another id.
        is_stop_reported: whether the stop of the table was reported.
        uncaptured: columns that the newest instance lacks.
    """

    name: TableName
    instances: TableInstances
    versions: dict[str, tuple[TableSchema, ...]] = field(default_factory=dict)
    covers: dict[str, Lsn] = field(default_factory=dict)
    object_ids: dict[str, int] = field(default_factory=dict)
    is_stop_reported: bool = False
    uncaptured: Uncaptured = CAPTURES_ALL

    @property
    def added(self) -> Sequence[str]:
        """Columns that the newest instance lacks because they were added after it."""
        return self.uncaptured.added

    @property
    def recognised(self) -> dict[str, Lsn]:
        """Low watermarks of the instances that the capture process has reached, oldest first."""
        return {
            instance.name: instance.low_watermark
            for instance in self.instances
            if instance.low_watermark is not None
        }

    def recreated_instances(self) -> set[str]:
        """Return names of instances that were dropped and created again since the last refresh."""
        return {
            instance.name
            for instance in self.instances
            if self.object_ids.get(instance.name, instance.object_id) != instance.object_id
        }


@dataclass(frozen=True, slots=True)
class Reading:
    """From where a table is read in a window.

    Attributes:
        schema: the version in force.
        covers_from: LSN from which on the instance holds the table's changes.
    """

    table: PublishedTable
    instance: CaptureInstance
    schema: TableSchema
    covers_from: Lsn


def reading_of(table: PublishedTable, lsn: Lsn) -> Reading | None:
    """Return from where a table's changes of a commit are read; None while it has no version."""
    covers = {name: table.covers[name] for name in table.versions}
    instance = choose_instance(table.instances, covers, lsn)
    if instance is None:
        return None
    schema = version_at(table.versions[instance.name], lsn)
    return Reading(table, instance, schema, covers[instance.name])


def covers_of(
    table: PublishedTable, record: TableRecord, published: Lsn, reached: Lsn
) -> dict[str, Lsn]:
    """Return from which LSN on each recognised instance of a table holds its changes.

    The instance that the table started with holds them from ``covers_from``, whatever its low
    watermark is, as long as cleanup deleted only published changes. If it lacks more than that,
    somebody may have created it again under the same name. Then its own low watermark counts.

    It also counts while no change of a table is published. The stored one may come from a primary
    whose last commits were lost, and the new one may need long to get there.

    Args:
        table: as of the last refresh, with the instances found now.
        published: last LSN up to which all changes are published.
        reached: commit LSN of the transaction of which a part is published, if there is one.
    """
    recreated = table.recreated_instances()
    covers = {
        name: low if name in recreated else table.covers.get(name, low)
        for name, low in table.recognised.items()
    }
    known = record.covers_from
    if known is not None and record.instances and not _may_start(record, known, reached):
        first = record.instances[0]
        place = max(published, known)
        if (
            first in covers
            and first not in recreated
            and table.recognised[first] <= place.increment()
        ):
            covers[first] = known
    return covers


def _may_start(record: TableRecord, covers_from: Lsn, reached: Lsn) -> bool:
    """Return whether none of a table's changes was published, nor a part of a transaction.

    Nothing is then needed of a table that becomes part of the cut only with a snapshot.
    """
    return record.state in _BEFORE_SNAPSHOT and covers_from > reached


def still_covered(
    table: PublishedTable,
    record: TableRecord,
    covers: Mapping[str, Lsn],
    published: Lsn,
    reached: Lsn,
    registered: Iterable[TableSchema] = (),
) -> TableRecord:
    """Return the record of a published table with the instances that hold its changes now.

    Args:
        covers: as :func:`covers_of` returns it, for the same LSNs.
        registered: the versions in the registry, which outlive their instances.

    Raises:
        PositionExpired: no instance holds the next changes; the one that held them was disabled.
            Or one that is left has the rest of a transaction in another order.
    """
    known = record.covers_from
    if known is None:
        return fresh_record(record, covers)
    recreated = table.recreated_instances()
    gone = [name for name in record.instances if name in recreated or name not in covers]
    may_start = _may_start(record, known, reached)  # else what follows in a part may be lost
    check_position_held(published, known, covers, gone, may_start=may_start)
    if not covers:
        return record
    if published < reached and not may_start:
        began = {of.capture_instance for of in registered if of.schema_lsn <= reached}
        later = {of.capture_instance for of in registered} - began
        _check_order_kept(table, record, covers, later, published, reached)
    if may_start:
        known = min(covers.values())
    patch = record.patch
    is_first_left = bool(gone) and [*covers] == [record.instances[0]]
    if is_first_left and patch is not None and published < patch.after:
        patch = None  # the instance with its columns is gone: the hand-over does not come
    return replace(record, covers_from=known, instances=_oldest_first(covers), patch=patch)


def _check_order_kept(
    table: PublishedTable,
    record: TableRecord,
    covers: Mapping[str, Lsn],
    later: Set[str],
    published: Lsn,
    reached: Lsn,
) -> None:
    """Check that the rest of a transaction is read in the order of the part that is published.

    An instance from before an update of the server lacks command ids, unlike its successor. If the
    successor is disabled, the same rows come in another order, and some would be skipped. If no
    instance has command ids, there is no other order, but a record does not say so.

    Args:
        later: names of instances of which no version had started when the part was read.

    Raises:
        PositionExpired: the part may be from an instance that is gone.
    """
    reading = choose_instance(table.instances, covers, reached)
    if reading is None or reading.ordered_by_command_id or reading.by_function:
        return
    names = record.instances
    newer = names[names.index(reading.name) + 1 :] if reading.name in names else ()
    gone = [name for name in newer if name not in covers and name not in later]
    if gone:
        needed, whole = published.increment(), reached.increment()
        raise PositionExpired(reading.name, needed, whole, disabled=gone)


def fresh_record(record: TableRecord, covers: Mapping[str, Lsn]) -> TableRecord:
    """Return the record of a table that starts with what its instances hold now.

    Its state stays.
    """
    return TableRecord(record.state, min(covers.values()), _oldest_first(covers))


def covers_from_start(covers: Mapping[str, Lsn], start: Lsn) -> dict[str, Lsn] | None:
    """Return from which LSN on each instance holds a table's changes if they start at an LSN.

    The reader takes the changes after the LSN from which an instance covers its table. A low
    watermark is the lowest LSN that cleanup has left. So an instance whose low watermark is the
    start covers the table from the LSN before it.

    Args:
        covers: low watermark of each recognised instance; at least one.
        start: lowest LSN to publish.

    Returns:
        None if the oldest instance does not reach back to the start.
    """
    first = oldest_of(covers)
    if covers[first] > start:
        return None
    return {**covers, first: min(covers[first], start.decrement())}


def kept_instances(instances: TableInstances, record: TableRecord) -> TableInstances:
    """Return the instances that are read if newer ones are ignored.

    Args:
        instances: all of a table.
        record: names those that were read so far.
    """
    known = TableInstances.of(i for i in instances if i.name in record.instances)
    return known or instances


def change_of(
    table: PublishedTable, record: TableRecord, type_changes: Sequence[Lsn]
) -> str | None:
    """Return how a table's columns changed since it is published; None if they did not.

    Args:
        type_changes: LSNs of DDL that changed a captured column's type, of its newest instance.
    """
    newest = table.instances.newest
    change = lacks_change(newest, table.added)
    if change or record.state not in PUBLISHED or not record.instances:
        return change or None
    if not any(instance.name in record.instances for instance in table.instances):
        return f"capture instance {newest.name} replaced {', '.join(record.instances)}"
    oldest = table.instances.oldest
    columns, before = ([(c.column_id, c.name) for c in i.columns] for i in (newest, oldest))
    if columns != before:
        return f"capture instance {newest.name} has other columns than {oldest.name}"
    known = max(record.schema_lsn or Lsn.MAX, record.snapshot_fence or Lsn.ZERO)
    if any(lsn > known for lsn in type_changes):
        return "a column has another type"
    return None


def oldest_of(covers: Mapping[str, Lsn]) -> str:
    """Return the name of the instance that reaches back furthest."""
    return min(covers, key=lambda name: covers[name])


def _oldest_first(covers: Mapping[str, Lsn]) -> tuple[str, ...]:
    """Return names of instances in the order in which they started to hold the table's changes."""
    return tuple(sorted(covers, key=lambda name: covers[name]))
