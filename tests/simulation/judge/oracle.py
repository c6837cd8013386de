"""The judge: what was published against the model's own history.

- The ledger: progress records join on to each other, and hold exactly the records of the topics.
- Exactly once, in order: between two cuts that a table is part of, each of its change rows is there
  once, with its own images; positions rise within a table and within a partition.
- Every cut is true: what a reader makes of a table up to a closed LSN is the table at that LSN. A
  reader holds a table from the first record that names it, and takes it whole when a record does
  not name it any more (ADR 0008).
- A switch of partitions makes a table's cuts wrong until it is noticed, which makes a reader hold
  the table anew; at the end of a run all were noticed.
- Every claim of freshness is true: what was committed at the source up to the claimed time is out.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

from tailrace_schemas.records.progress import Progress
from tailrace_schemas.records.shards import Shard
from tests.simulation.judge.history import ExpectedEvent, Named, TableHistory, histories
from tests.simulation.judge.lines import captured, lines_of
from tests.simulation.judge.published import (
    PREFIX,
    Delivered,
    Event,
    event_of,
    lsn_of_text,
    position_hash,
)
from tests.simulation.kafka.broker import Partition
from tests.simulation.sqlserver import log as wal

if TYPE_CHECKING:
    from tests.simulation.simulation import Simulation

_PLAIN = ("v", "s")
"""Columns of the table without a key that it has all the time."""
_CLOCK_GRAIN = timedelta(milliseconds=10)


class Wrong(AssertionError):
    """Something published is not true."""


@dataclass(slots=True)
class _Reader:
    """What a reader of one topic makes of it.

    Attributes:
        history: of the table.
        is_switched: whether rows were switched out since it began to hold the table.
        is_held: whether progress records name it: it is not part of the cut.
        rows: by key, or by image for a table without one.
        since: identities of events since the last cut that it was part of.
        closed: LSN of that cut; None while it is held.
    """

    topic: str
    history: TableHistory
    is_held: bool = False
    is_whole: bool = False
    rows: dict[Any, Named] = field(default_factory=dict)
    bag: Counter[Any] = field(default_factory=Counter)
    since: list[Event] = field(default_factory=list)
    closed: bytes | None = None
    newest: bytes = b""
    seen: set[tuple[bytes, bytes, int]] = field(default_factory=set)
    is_dirty: bool = True
    whole: list[Event] = field(default_factory=list)
    is_switched: bool = False

    def hold(self) -> None:
        """A record names the table: what comes from here on is the whole of it."""
        self.is_held = True
        self.is_switched = False
        self.rows.clear()
        self.bag.clear()
        self.whole.clear()
        self.since.clear()
        self.closed = None
        self.is_dirty = True

    def take(self, event: Event) -> None:
        """Apply an event."""
        self.is_dirty = True
        if event.op != "r":
            if event.identity in self.seen:
                raise Wrong(f"{self.topic}: {_told(event)} was published twice")
            self.seen.add(event.identity)
            self.since.append(event)
        if self.history.key:
            self._take_keyed(event)
        else:
            self._take_keyless(event)

    def _take_keyed(self, event: Event) -> None:
        if event.before is not None and event.op == "d":
            self.rows.pop(self._key(event.before), None)
        if event.after is not None:
            key = self._key(event.after)
            known = self.rows.get(key, {}) if event.unavailable else {}
            after = {
                name: known.get(name) if name in event.unavailable else value
                for name, value in event.after.items()
            }
            self.rows[key] = after

    def _take_keyless(self, event: Event) -> None:
        if self.is_held:
            self.whole.append(event)
        else:
            _count(self.bag, event)

    def release(self, *, is_emptied: bool) -> None:
        """The table is part of the cut again: for one without a key, its rows at the snapshot's
        fence and the changes behind it. A snapshot without rows has no fence to be seen.

        Args:
            is_emptied: whether a switch after the cut may be what took all rows.
        """
        self.is_held = False
        fence = max((event.lsn for event in self.whole if event.op == "r"), default=None)
        if fence is None and not self.history.key and not is_emptied:
            names = self.history.names.values()
            rows = self.history.rows.values()
            self.bag = Counter(
                _frozen({n: row.get(n) for n in _PLAIN if n in names}) for row in rows
            )
        for event in self.whole:
            is_read = event.op == "r" and event.lsn == fence
            if fence is not None and (is_read or (event.op != "r" and event.lsn > fence)):
                _count(self.bag, event)
        self.whole.clear()

    def _key(self, image: Named) -> tuple[Any, ...]:
        return tuple(image[name] for name in self.history.key)


def judge(sim: Simulation) -> None:
    """Judge a run that is over.

    Raises:
        Wrong: something published is not true.
    """
    _Judge(sim).run()


class _Judge:
    def __init__(self, sim: Simulation) -> None:
        self._sim = sim
        self._records: list[wal.Record] | None = None
        self._histories: dict[str, TableHistory] = {}
        self._by_identity: dict[str, dict[tuple[bytes, bytes, int], ExpectedEvent]] = {}
        self._readers: dict[str, _Reader] = {}
        self._next: dict[Partition, int] = defaultdict(int)
        self._last: dict[Partition, bytes] = {}
        self._newest: dict[str, bytes] = {}
        self._number = 0
        self._named: dict[int, set[str]] = defaultdict(set)
        self._shards = 1
        self._mode = sim.config.snapshot.mode.value

    def run(self) -> None:
        closed: dict[int, str] = {}
        of_each = zip(self._sim.published.delivered, lines_of(self._sim), strict=True)
        for delivered, records in of_each:
            self._take_line(records)
            self._ledger(delivered)
            for progress in delivered.progress:
                before = closed.get(progress.shard, progress.after_lsn)
                if progress.after_lsn != before:
                    raise Wrong(
                        f"progress record {self._number} follows {progress.after_lsn}, but the one"
                        f" before it closed {before}"
                    )
                closed[progress.shard] = progress.closed_lsn
                self._divide(progress)
                self._name(progress.shard, set(progress.snapshotting))
            self._events(delivered)
            self._number += len(delivered.progress)
            for last in {progress.shard: progress for progress in delivered.progress}.values():
                if last.closed:
                    self._cut(last)
                    self._freshness(last)
        self._nothing_else()
        self._nothing_unnoticed()

    def _take_line(self, records: list[wal.Record]) -> None:
        """What comes from here on is of this line of recovery; readers have what they have."""
        if records is self._records:
            return
        self._records = records
        self._histories = histories(records)
        self._by_identity = {
            name: {e.identity: e for _, events in history.commits for e in events}
            for name, history in self._histories.items()
        }
        for reader in self._readers.values():
            reader.history = self._histories[reader.history.name]
            reader.is_dirty = True

    def _divide(self, progress: Progress) -> None:
        """Once the tables are divided among more shards, no publisher of fewer goes on."""
        if progress.shards < self._shards:
            raise Wrong(
                f"progress record {self._number} is of one of {progress.shards} shards, after the"
                f" tables were divided among {self._shards}"
            )
        self._shards = progress.shards

    def _has(self, progress: Progress, topic: str) -> bool:
        """Whether a topic is of the shard of a progress record."""
        return Shard(progress.shard, self._sim.maps[progress.shards]).has(topic)

    def _name(self, shard: int, named: set[str]) -> None:
        """A table is held from the first record that names it, after one that does not."""
        for topic in named - self._named[shard]:
            reader = self._reader(topic)
            if reader is not None:
                reader.hold()
        self._named[shard] = named

    # -- ledger ------------------------------------------------------------------------------------

    def _ledger(self, delivered: Delivered) -> None:
        told = {
            (part.topic, part.partition): part
            for progress in delivered.progress
            for part in progress.partitions
        }
        for partition, entries in delivered.parts:
            part = told.pop((partition.topic, partition.number), None)
            if part is None:
                raise Wrong(f"{partition.topic}/{partition.number}: records without a ledger")
            events = [event_of(self._sim.schemas, entry) for entry in entries]
            positions = [event.position for event in events if event is not None]
            total = sum(map(position_hash, positions)) % (1 << 64)
            found = (entries[0].offset, entries[-1].offset + 1, len(positions), total)
            said = (part.first_offset, part.next_offset, part.count, part.position_hash)
            if found != said:
                raise Wrong(f"{partition.topic}/{partition.number}: {found}, ledger says {said}")
            for event in events:
                if event is None or event.op == "r":
                    continue  # a snapshot's rows are at their fence, before its own changes
                if event.position < self._last.get(partition, b""):
                    raise Wrong(f"{partition.topic}/{partition.number}: positions go back")
                self._last[partition] = event.position
        if told:
            raise Wrong(f"the ledger speaks of records that are not there: {sorted(told)}")

    def _nothing_else(self) -> None:
        """Every committed record of a data topic belongs to a transaction with progress."""
        known = {id(delivered.transaction) for delivered in self._sim.published.delivered}
        for topic in self._sim.broker.topics.values():
            if topic.name.count(".") != 3 or not topic.name.startswith(f"{PREFIX}."):
                continue
            for partition in topic.partitions:
                for entry in partition.committed():
                    if entry.transaction is not None and entry.transaction.is_stray:
                        continue
                    if id(entry.transaction) not in known:
                        raise Wrong(f"{topic.name}: a record outside of any progress record")

    def _nothing_unnoticed(self) -> None:
        """Behind the last switch each table was read again, or is not part of the cut."""
        for reader in self._readers.values():
            is_named = any(reader.topic in named for named in self._named.values())
            is_part = reader.closed is not None and not is_named
            if is_part and reader.is_switched and self._mode == "initial":
                self._check_state(reader, reader.closed or b"", released=True)

    # -- events ------------------------------------------------------------------------------------

    def _reader(self, topic: str) -> _Reader | None:
        reader = self._readers.get(topic)
        if reader is None:
            history = self._histories.get(topic.rpartition(".")[2])
            if history is None:
                raise Wrong(f"{topic} is a topic of no table")
            reader = self._readers[topic] = _Reader(topic, history)
        return reader

    def _events(self, delivered: Delivered) -> None:
        by_topic: dict[str, list[Event]] = defaultdict(list)
        closed = lsn_of_text(delivered.progress[-1].closed_lsn)
        for partition, entries in delivered.parts:
            for entry in entries:
                event = event_of(self._sim.schemas, entry)
                if event is None:
                    continue
                if event.op == "r" and event.lsn != closed:
                    raise Wrong(f"{partition.topic}: {_told(event)} is not at the closed LSN")
                by_topic[partition.topic].append(event)
        for topic, events in by_topic.items():
            reader = self._reader(topic)
            if reader is None:
                continue
            events.sort(key=lambda event: event.position)
            for event in events:
                if event.op != "r":
                    self._check_image(topic, event)
                    if event.position <= self._newest.get(topic, b""):
                        raise Wrong(f"{topic}: {_told(event)} comes behind a later one")
                    self._newest[topic] = event.position
                reader.take(event)

    def _check_image(self, topic: str, event: Event) -> None:
        expected = self._by_identity[reader_name(topic)].get(event.identity)
        if expected is None:
            raise Wrong(f"{topic}: {_told(event)} is of no change")
        if expected.op != event.op:
            raise Wrong(f"{topic}: {_told(event)} should be {expected.op}")
        for what, image, wanted in (
            ("before", event.before, expected.before),
            ("after", event.after, expected.after),
        ):
            if (image is None) != (wanted is None):
                raise Wrong(f"{topic}: {_told(event)}: {what} {image}, should be {wanted}")
            for name, value in (image or {}).items():
                right = (wanted or {}).get(name)
                if name == "note" and event.op == "u" and value is None:
                    if what == "after" and name not in event.unavailable and right is not None:
                        raise Wrong(f"{topic}: {_told(event)}: {name} is NULL, was {right}")
                    continue
                if value != right:
                    raise Wrong(f"{topic}: {_told(event)}: {what}.{name} {value}, was {right}")

    # -- cuts --------------------------------------------------------------------------------------

    def _cut(self, progress: Progress) -> None:
        closed = lsn_of_text(progress.closed_lsn)
        for name, history in self._histories.items():
            if self._has(progress, f"{PREFIX}.shop.dbo.{name}"):
                history.move_to(closed)
        for topic, reader in self._readers.items():
            if self._has(progress, topic):
                reader.is_switched |= reader.history.pass_switches(closed)
        for topic, reader in self._readers.items():
            if topic in progress.snapshotting or not self._has(progress, topic):
                continue
            released = reader.is_held
            switch = self._switch_after(reader.history, closed) if released else None
            if released:
                reader.release(is_emptied=switch is not None)
            if reader.closed is not None:
                self._check_exactly_once(reader, reader.closed, closed)
            reader.closed = closed
            reader.since.clear()
            if self._mode == "initial" and not reader.is_switched:
                self._check_cut(reader, closed, switch, released=released)

    def _check_cut(
        self, reader: _Reader, closed: bytes, switch: bytes | None, *, released: bool
    ) -> None:
        """A closed LSN stands for all up to the next one that is captured. A switch in between has
        no LSN of its own in what is published: a table that begins may be as it was after it.
        """
        try:
            self._check_state(reader, closed, released=released)
        except Wrong:
            if switch is None:
                raise
            reader.history.move_to(switch)
            reader.history.pass_switches(switch)
            self._check_state(reader, closed, released=True)

    def _switch_after(self, history: TableHistory, closed: bytes) -> bytes | None:
        """The last switch of a table before the next LSN that is captured."""
        if not history.switches:
            return None
        later = (lsn for lsn in captured(self._records or []) if lsn > closed)
        end = min(later, default=None)
        switches = [lsn for lsn in history.switches if end is None or lsn < end]
        return max(switches, default=None)

    def _check_exactly_once(self, reader: _Reader, after: bytes, up_to: bytes) -> None:
        expected = reader.history.expected(after, up_to)
        found = Counter(event.identity for event in reader.since)
        if found != expected:
            missing = [_identity(i) for i in (expected - found)]
            more = [_identity(i) for i in (found - expected)]
            raise Wrong(
                f"{reader.topic}: between {after.hex()} and {up_to.hex()} missing {missing},"
                f" too many {more}"
            )

    def _check_state(self, reader: _Reader, closed: bytes, *, released: bool) -> None:
        history = reader.history
        if not (reader.is_dirty or released) and history.changed_at <= (reader.newest or b""):
            return
        reader.is_dirty = False
        reader.newest = history.changed_at
        if history.key:
            right = {tuple(row[name] for name in history.key): row for row in history.rows.values()}
            for key in right.keys() | reader.rows.keys():
                self._compare(reader, closed, key, reader.rows.get(key), right.get(key))
            return
        rows = Counter(_frozen({n: row.get(n) for n in _PLAIN}) for row in history.rows.values())
        bag = Counter({image: count for image, count in reader.bag.items() if count})
        if rows != bag:
            raise Wrong(
                f"{reader.topic}: at {closed.hex()} too few {dict(rows - bag)}, too many"
                f" {dict(bag - rows)}"
            )

    def _compare(
        self, reader: _Reader, closed: bytes, key: Any, found: Named | None, right: Named | None
    ) -> None:
        at = f"{reader.topic}: at {closed.hex()} key {key}"
        if found is None or right is None:
            raise Wrong(f"{at} is {found}, should be {right}")
        for name, value in found.items():
            if name in right and value != right[name]:
                raise Wrong(f"{at}: {name} is {value}, should be {right[name]}")

    # -- freshness ---------------------------------------------------------------------------------

    def _freshness(self, progress: Progress) -> None:
        """Nothing that was committed up to the claimed time is still to come."""
        claim = progress.closed_commit_ms
        if claim is None or self._sim.clock_steps or self._sim.group.lines:
            return
        moment = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(milliseconds=claim)
        moment = moment.replace(tzinfo=None)
        zone = self._sim.group.server.clock.zone
        grain = _CLOCK_GRAIN
        if len(self._sim.group.replicas) > 1:
            grain += timedelta(milliseconds=500)  # their clocks differ
        if zone.change is not None:
            grain += timedelta(hours=1)
        closed = lsn_of_text(progress.closed_lsn)
        for (_, lsn), committed in self._sim.commit_utc.items():
            if lsn > closed and committed < moment - grain and self._is_followed(lsn, progress):
                raise Wrong(
                    f"everything up to {moment} is said to be out, but {lsn.hex()} of {committed}"
                    f" is not: closed is {closed.hex()}"
                )

    def _is_followed(self, lsn: bytes, progress: Progress) -> bool:
        for topic, reader in self._readers.items():
            if topic in progress.snapshotting or reader.closed is None:
                continue
            if not self._has(progress, topic):
                continue
            if any(commit == lsn for commit, _ in reader.history.commits):
                return True
        return False


def reader_name(topic: str) -> str:
    """The table of a topic."""
    return topic.removeprefix(f"{PREFIX}.").rpartition(".")[2]


def _count(bag: Counter[Any], event: Event) -> None:
    for image, count in ((event.before, -1), (event.after, 1)):
        if image is not None:
            bag[_frozen({name: image[name] for name in _PLAIN})] += count


def _frozen(image: Mapping[str, Any]) -> Any:
    return tuple(sorted(image.items()))


def _identity(identity: tuple[bytes, bytes, int]) -> str:
    lsn, seqval, operation = identity
    return f"{lsn.hex()}/{seqval.hex()}/{operation}"


def _told(event: Event) -> str:
    return f"{event.op} {_identity(event.identity)}"
