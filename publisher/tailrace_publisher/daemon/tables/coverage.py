"""What a table's changes are held by, and from which LSN on (pure).

What is covered is the table's: ``covers_from`` is kept with its record, and says from where on its
changes are held without a gap. Within it, the capture instance that it began with holds them from
there, and each newer one from its own low watermark when it was first seen.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from tailrace_publisher.change.instance import CaptureInstance
from tailrace_publisher.daemon.tables.table_record import TableRecord
from tailrace_publisher.daemon.tables.table_state import TableState
from tailrace_publisher.source.catalog.instances import choose_instance
from tailrace_publisher.source.catalog.versions import version_at
from tailrace_publisher.source.log.loss import check_place_kept
from tailrace_schemas.events.envelope import TableSchema
from tailrace_schemas.position.lsn import Lsn
from tailrace_schemas.topics.topic_names import TableName


@dataclass(slots=True)
class PublishedTable:
    """A table with everything that its rows need.

    Attributes:
        name: the table.
        topic: where its events go.
        instances: its capture instances, oldest first.
        versions: per recognised capture instance its schema versions, oldest first; empty while
            nothing is read.
        covers: per recognised capture instance the LSN from which on it holds the table's changes.
        object_ids: of the change tables of its instances when it was last taken in: an instance
            that was disabled and made again under its name has another one.
        is_told: whether it was told that it is stopped.
    """

    name: TableName
    topic: str
    instances: list[CaptureInstance]
    versions: dict[str, tuple[TableSchema, ...]] = field(default_factory=dict)
    covers: dict[str, Lsn] = field(default_factory=dict)
    object_ids: dict[str, int] = field(default_factory=dict)
    is_told: bool = False

    @property
    def recognised(self) -> dict[str, Lsn]:
        """Low watermarks of the instances that the capture process has come to, oldest first."""
        return {
            instance.name: instance.low_watermark
            for instance in self.instances
            if instance.low_watermark is not None
        }

    def made_again(self) -> set[str]:
        """Names of instances that are others than when the table was last taken in."""
        return {
            instance.name
            for instance in self.instances
            if self.object_ids.get(instance.name, instance.object_id) != instance.object_id
        }


@dataclass(frozen=True, slots=True)
class Reading:
    """From where a table is read in a window.

    Attributes:
        table: the table.
        instance: the capture instance.
        schema: the version in force.
        covers_from: LSN from which on the instance holds the table's changes.
    """

    table: PublishedTable
    instance: CaptureInstance
    schema: TableSchema
    covers_from: Lsn


def reading_of(table: PublishedTable, lsn: Lsn) -> Reading | None:
    """From where a table's changes of a commit are read; None while it has no version."""
    covers = {name: table.covers[name] for name in table.versions}
    instance = choose_instance(table.instances, covers, lsn)
    if instance is None:
        return None
    schema = version_at(table.versions[instance.name], lsn)
    return Reading(table, instance, schema, covers[instance.name])


def covers_of(table: PublishedTable, record: TableRecord, out: Lsn) -> dict[str, Lsn]:
    """From which LSN on each recognised instance of a table holds its changes.

    That the instance which the table began with holds them from there, whatever its low watermark
    says, is true as long as cleanup has taken only what is out. One that lacks more may be another
    of the same name, made while nobody looked: what it holds is what it says.

    Args:
        table: the table, as it was last taken in and with the instances found now.
        record: what is known of it.
        out: last LSN up to which all changes are published.
    """
    anew = table.made_again()
    covers = {
        name: low if name in anew else table.covers.get(name, low)
        for name, low in table.recognised.items()
    }
    if record.covers_from is not None and record.instances:
        first = record.instances[0]
        place = max(out, record.covers_from)
        if first in covers and first not in anew and table.recognised[first] <= place.increment():
            covers[first] = record.covers_from
    return covers


def still_covered(
    table: PublishedTable, record: TableRecord, covers: Mapping[str, Lsn], out: Lsn
) -> TableRecord:
    """The record of a published table with the instances that hold its changes now.

    Args:
        table: the table.
        record: what was known of it.
        covers: as :func:`covers_of`.
        out: last LSN up to which all changes are published.

    Raises:
        PositionExpired: nothing holds what comes next; what held it was disabled.
    """
    known = record.covers_from
    if known is None:
        return begun(record, covers)
    anew = table.made_again()
    gone = [name for name in record.instances if name in anew or name not in covers]
    may_begin = record.state is TableState.PENDING
    check_place_kept(out, known, covers, gone, may_begin=may_begin)
    if not covers:
        return record
    if may_begin and known > out:
        known = min(covers.values())
    return replace(record, covers_from=known, instances=_oldest_first(covers))


def begun(record: TableRecord, covers: Mapping[str, Lsn]) -> TableRecord:
    """The record of a table that begins with what its instances hold now; its state stays."""
    return TableRecord(record.state, min(covers.values()), _oldest_first(covers))


def covers_from_start(covers: Mapping[str, Lsn], start: Lsn) -> dict[str, Lsn] | None:
    """From which LSN on each instance holds a table's changes that begin with an LSN.

    An instance is read behind the LSN that it covers its table from; a low watermark is the lowest
    LSN that cleanup has left. So one that has just the start covers it from before.

    Args:
        covers: low watermark of each recognised instance; at least one.
        start: lowest LSN that rows are wanted from.

    Returns:
        None when the oldest of them does not go back to the start.
    """
    first = oldest_of(covers)
    if covers[first] > start:
        return None
    return {**covers, first: min(covers[first], start.decrement())}


def oldest_of(covers: Mapping[str, Lsn]) -> str:
    """Name of the instance that goes back furthest."""
    return min(covers, key=lambda name: covers[name])


def _oldest_first(covers: Mapping[str, Lsn]) -> tuple[str, ...]:
    """Names of instances in the order in which they began to hold the table's changes.

    Not the order of their creation dates: those are local times, and clocks are put back.
    """
    return tuple(sorted(covers, key=lambda name: covers[name]))
