"""Places that only a look through all progress records can find."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from tailrace.subscribe.bookmark import Bookmark, ShardPlace
from tailrace.subscribe.errors import ProgressGap, SnapshotNotRetained, SourceWentBack
from tailrace.subscribe.groups import Group, ShardRecords, Where
from tailrace.subscribe.start import ShardLog, oldest
from tailrace_schemas.topics.topic_names import TableName

Low = Callable[[Where], int]
"""The first offset that a partition holds."""


def _groups(
    log: ShardLog, wanted: Mapping[str, TableName], begin: ShardPlace
) -> Iterator[tuple[ShardPlace, Group | None]]:
    """The groups of a shard from a place on, each with the place before it.

    None, with the place after it, where a history ends: the source was restored, or records are
    gone.
    """
    records = ShardRecords(log.shard, wanted.__contains__, begin.lsn, begin.named)
    place = begin
    for offset, record in log.read(begin.offset):
        try:
            group = records.add(offset, record)
        except (ProgressGap, SourceWentBack):
            place = ShardPlace(offset, record.after_lsn, records.named)
            records = ShardRecords(log.shard, wanted.__contains__, None, records.named)
            group = records.add(offset, record)
            yield place, None
        if group is not None:
            yield place, group
            place = ShardPlace(group.next, group.closed_lsn, group.named)


def _lacking(group: Group, low: Low) -> set[str]:
    """The topics of which retention has removed events of a group."""
    return {part.where[0] for part in group.segments if part.count and part.first < low(part.where)}


def begin_with_oldest(
    prefix: str, logs: Mapping[int, ShardLog], wanted: Mapping[str, TableName], low: Low
) -> Bookmark:
    """The oldest place from which on the topics hold every event of the wanted tables."""
    places: dict[int, ShardPlace] = {}
    for number, log in logs.items():
        places[number] = oldest(log, is_asked=False)
        for place, group in _groups(log, wanted, places[number]):
            if group is None:
                places[number] = place
            elif _lacking(group, low):
                places[number] = ShardPlace(group.next, group.closed_lsn, group.named)
    return Bookmark(prefix, places)


def begin_with_snapshots(
    prefix: str, logs: Mapping[int, ShardLog], wanted: Mapping[str, TableName], low: Low
) -> Bookmark:
    """The place of the newest snapshot of each wanted table.

    Raises:
        SnapshotNotRetained: a table's rows, or changes since, are no longer held.
    """
    started: dict[str, tuple[str, int, int]] = {}
    places: dict[str, ShardPlace] = {}
    shards: dict[int, ShardPlace] = {}
    for number, log in logs.items():
        shards[number] = oldest(log, is_asked=False)
        for place, group in _groups(log, wanted, shards[number]):
            if group is None:
                started = {topic: of for topic, of in started.items() if of[1] != number}
                continue
            for topic in group.started:
                if (group.after_lsn, number) >= started.get(topic, ("", 0, 0))[:2]:
                    started[topic] = (group.after_lsn, number, group.first)
                    places[topic] = place
            for topic in _lacking(group, low):
                if topic in started and started[topic][1] == number:
                    del started[topic]
            shards[number] = ShardPlace(group.next, group.closed_lsn, group.named)
    missing = sorted(table.in_database for topic, table in wanted.items() if topic not in started)
    if missing:
        raise SnapshotNotRetained(
            f"the topics hold no whole snapshot of {', '.join(missing)}. Fix: tailrace snapshot"
            f" {missing[0]}, then begin again; or name the tables to subscribe to; or begin with"
            " Start.beginning() if changes alone are enough"
        )
    for topic, (_, number, _) in started.items():
        shards[number] = min(shards[number], places[topic], key=lambda place: place.offset)
    skips = {topic: (number, offset) for topic, (_, number, offset) in started.items()}
    return Bookmark(prefix, shards, {}, skips)
