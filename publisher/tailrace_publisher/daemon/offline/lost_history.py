"""What was published of a database and is not in its log any more, after a restore or a failover.

The progress topic has the published history: which commit LSNs were closed, when they were
committed, and how many events each data topic got. A log is one line, so a database that has a
commit has all before it. The search goes back from the newest progress record to the last one whose
commit the database has. What was published after that one is lost.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from tailrace_publisher.change.instance import CaptureInstance
from tailrace_publisher.checkpoint.published import progress_backwards
from tailrace_publisher.daemon.tables.publisher_state import PublisherState
from tailrace_publisher.ports import Connection
from tailrace_publisher.runtime import DatabaseTopics
from tailrace_publisher.source.log.commit_times import milliseconds
from tailrace_publisher.source.log.identity import Continuity, continuity
from tailrace_publisher.source.log.probe import Probe
from tailrace_publisher.source.log.queries import holds_after
from tailrace_schemas.position.lsn import Lsn
from tailrace_schemas.records.progress import Progress
from tailrace_schemas.topics.topic_names import TableName

_ZONE_STEP_MS: Final = 15 * 60 * 1000
"""Offsets from UTC are multiples of it, so that two times are comparable without their zone."""


@dataclass(slots=True)
class LostEvents:
    """Events of one data topic that the database does not have.

    Attributes:
        events: how many; tombstones are not counted.
        from_ms: commit time of their first closed LSN, milliseconds UTC; None if it is not closed.
        to_ms: commit time of their last closed LSN.
        offsets: [first, next) of each partition.
    """

    events: int = 0
    from_ms: int | None = None
    to_ms: int | None = None
    offsets: dict[int, tuple[int, int]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class LostHistory:
    """What the topics and the log of the database do not have in common.

    Attributes:
        kept: last closed LSN that both have. None if none was found.
        kept_ms: its commit time, milliseconds UTC.
        has_kept: whether the database still has that commit. Otherwise cleanup has removed its
            entry from ``cdc.lsn_time_mapping``, and nothing older can be compared.
        through: LSN up to which changes were published.
        events: lost events by data topic.
        overwritten: tables that the database changed in (kept, through]. These changes are not
            published, because the publisher continues after ``through``.
        cleaned: tables of which no capture instance holds all changes after ``kept``. Whether the
            database changed them is unknown.
    """

    through: Lsn
    kept: Lsn | None = None
    kept_ms: int | None = None
    has_kept: bool = False
    events: Mapping[str, LostEvents] = field(default_factory=dict)
    overwritten: frozenset[TableName] = frozenset()
    cleaned: frozenset[TableName] = frozenset()

    @property
    def is_proven(self) -> bool:
        """Whether all changes of the database since the last common commit can be seen."""
        return self.has_kept and not self.cleaned

    @property
    def is_nothing(self) -> bool:
        """Whether the database has everything that was published, and nothing else up to there."""
        return self.is_proven and not self.events and not self.overwritten

    def concerned(self, tables: Mapping[TableName, str]) -> set[TableName]:
        """Return the tables whose topic may differ from the database.

        Args:
            tables: the published tables, with their data topics.
        """
        if not self.has_kept:
            return set(tables)
        own = self.overwritten | self.cleaned
        return {table for table, topic in tables.items() if topic in self.events or table in own}


def lost_history(
    connection: Connection,
    topics: DatabaseTopics,
    state: PublisherState,
    instances: Iterable[CaptureInstance],
) -> LostHistory:
    """Compare the progress records with the log of the database.

    Args:
        state: restored from the checkpoint.
        instances: all capture instances of the database.

    Raises:
        CheckpointUnavailable, CheckpointError: the progress topic cannot be read.
        SourceError: the server did not answer.
    """
    through = state.position.commit_lsn
    has_newest = _has_newest(state, continuity(connection, through))
    if has_newest:
        return LostHistory(through, through, has_kept=True)
    below = through if has_newest is False else through.increment()
    events: dict[str, LostEvents] = {}
    closed_ms = None
    for block in progress_backwards(topics):
        records = [record for _, record in block]
        place, has_kept = _last_kept(connection, records, below)
        for record in reversed(records[place + 1 :]):
            closed_ms = record.closed_commit_ms or closed_ms
            _add(events, record, closed_ms)
        if place >= 0:
            kept = Lsn.parse(records[place].closed_lsn)
            changed = Probe.of(instances).ask(connection, kept.increment(), through)
            tables = frozenset(i.table for i in instances if i.name in changed)
            held = {i.table for i in instances if holds_after(connection, i.name, kept)}
            cleaned = frozenset(i.table for i in instances) - held
            of_kept = [r for r in records[: place + 1] if r.closed_lsn == str(kept)]
            kept_ms = next((r.closed_commit_ms for r in of_kept if r.closed_commit_ms), None)
            return LostHistory(through, kept, kept_ms, has_kept, events, tables, cleaned)
    return LostHistory(through, events=events)


def _has_newest(state: PublisherState, found: Continuity) -> bool | None:
    """Return whether the database has the commit of the position; None: unknown."""
    known = state.commit
    if known is None or (found.commit is None and found.may_lack(known.commit_lsn)):
        return None
    return found.is_of(known)


def _last_kept(connection: Connection, records: Sequence[Progress], below: Lsn) -> tuple[int, bool]:
    """Return the index of the last record whose closed LSN is not lost, -1 if all are lost.

    A record that closes an LSN with events has the time of its commit. Other records may have a
    later time, up to which nothing newer was committed. Such a record proves that its commit is
    there if it has the commit's time, but not that the commit is lost.

    Args:
        below: LSN from which on everything is lost.

    Returns:
        The index, and whether the database has the commit.
    """
    closing = [i for i, record in enumerate(records) if record.closed_commit_ms is not None]
    certain = [i for i in closing if _closes_events(records[i])]
    found: dict[int, bool | None] = {}

    def is_lost(index: int) -> bool:
        is_below = Lsn.parse(records[index].closed_lsn) < below
        found[index] = is_below and _has_commit(connection, records[index])
        return found[index] is False

    count = bisect_left(certain, True, key=is_lost)
    place = certain[count - 1] if count else -1
    end = certain[count] if count < len(certain) else len(records)
    for index in closing:
        if place < index < end and not is_lost(index):
            place = index
    if place < 0:
        return place, False
    lsn = records[place].closed_lsn  # an idle database closes it again, with snapshot rows perhaps
    again = (i for i in range(place, end) if records[i].closed and records[i].closed_lsn == lsn)
    return max(again, default=place), found[place] is True


def _closes_events(record: Progress) -> bool:
    return record.after_lsn != record.closed_lsn and bool(record.partitions)


def _has_commit(connection: Connection, record: Progress) -> bool | None:
    """Return whether the database has the closed commit; None if cleanup removed the evidence."""
    lsn = Lsn.parse(record.closed_lsn)
    found = continuity(connection, lsn)
    if found.commit is None:
        return None if found.may_lack(lsn) else False
    local = found.commit.local_time
    published_ms = record.closed_commit_ms or 0
    return local is not None and (milliseconds(local, 0) - published_ms) % _ZONE_STEP_MS == 0


def _add(events: dict[str, LostEvents], record: Progress, closed_ms: int | None) -> None:
    """Add the events of a record, which is older than those added before."""
    for partition in record.partitions:
        if partition.count:
            lost = events.setdefault(partition.topic, LostEvents(to_ms=closed_ms))
            lost.events += partition.count
            lost.from_ms = closed_ms
            known = lost.offsets.get(partition.partition)
            until = known[1] if known else partition.next_offset
            lost.offsets[partition.partition] = (partition.first_offset, until)
