"""Places that only a look through all progress records can find."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from tailrace.subscribe.bookmark import Bookmark, Place
from tailrace.subscribe.errors import ProgressGap, SnapshotNotRetained, SourceWentBack
from tailrace.subscribe.groups import Group, GroupRecords, Where
from tailrace.subscribe.start import ProgressLog, oldest
from tailrace_schemas.topics.topic_names import TableName

Low = Callable[[Where], int]
"""The first offset that a partition holds."""


def _groups(
    log: ProgressLog, wanted: Mapping[str, TableName], begin: Place
) -> Iterator[tuple[Place, Group | None]]:
    """The groups from a place on, each with the place before it.

    None, with the place after it, where a history ends: the source was restored, or records are
    gone.
    """
    records = GroupRecords(wanted.__contains__, begin.lsn, begin.named)
    place = begin
    for offset, record in log.read(begin.offset):
        try:
            group = records.add(offset, record)
        except (ProgressGap, SourceWentBack):
            place = Place(offset, record.after_lsn, records.named)
            records = GroupRecords(wanted.__contains__, None, records.named)
            group = records.add(offset, record)
            yield place, None
        if group is not None:
            yield place, group
            place = Place(group.next, group.closed_lsn, group.named)


def _lacking(group: Group, low: Low) -> set[str]:
    """The topics of which retention has removed events of a group."""
    return {part.where[0] for part in group.segments if part.count and part.first < low(part.where)}


def begin_with_oldest(
    prefix: str, log: ProgressLog, wanted: Mapping[str, TableName], low: Low
) -> Bookmark:
    """The oldest place from which on the topics hold every event of the wanted tables."""
    found = oldest(log, is_asked=False)
    for place, group in _groups(log, wanted, found):
        if group is None:
            found = place
        elif _lacking(group, low):
            found = Place(group.next, group.closed_lsn, group.named)
    return Bookmark(prefix, found)


def begin_with_snapshots(
    prefix: str, log: ProgressLog, wanted: Mapping[str, TableName], low: Low
) -> Bookmark:
    """The place of the newest snapshot of each wanted table.

    Raises:
        SnapshotNotRetained: a table's rows, or changes since, are no longer held.
    """
    started: dict[str, tuple[Place, int]] = {}
    end = oldest(log, is_asked=False)
    for place, group in _groups(log, wanted, end):
        if group is None:
            started = {}
            continue
        started |= dict.fromkeys(group.started, (place, group.first))
        for topic in _lacking(group, low):
            started.pop(topic, None)
        end = Place(group.next, group.closed_lsn, group.named)
    missing = sorted(table.in_database for topic, table in wanted.items() if topic not in started)
    if missing:
        raise SnapshotNotRetained(
            f"the topics hold no whole snapshot of {', '.join(missing)}. Fix: tailrace snapshot"
            f" {missing[0]}, then begin again; or name the tables to subscribe to; or begin with"
            " Start.beginning() if changes alone are enough"
        )
    first = min((end, *(place for place, _ in started.values())), key=lambda place: place.offset)
    return Bookmark(prefix, first, {}, {topic: offset for topic, (_, offset) in started.items()})
