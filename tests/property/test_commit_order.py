"""Any interleaving of partitions gives the same sequence, and so does any resumption."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tailrace.subscribe.bookmark import Bookmark, Place
from tailrace.subscribe.commit_order import CommitOrder, Ended, Ready, Started, WindowEnd
from tailrace.subscribe.errors import EventsRemoved
from tailrace.subscribe.groups import Group, GroupRecords, Where
from tailrace_schemas.position.change_position import ChangePosition, Operation
from tailrace_schemas.position.lsn import Lsn
from tailrace_schemas.records.progress import PartitionProgress, Progress

PARTITIONS = 2
PROGRESS = ("p.progress", 0)


def lsn(number: int) -> Lsn:
    return Lsn(1, number, 1)


@dataclass
class Topics:
    """Kafka as a publisher fills it: records by partition, and progress records."""

    draw: random.Random
    tables: list[str]
    data: dict[Where, list[tuple[int, bytes | None]]] = field(default_factory=dict)
    progress: list[tuple[int, Progress]] = field(default_factory=list)
    ends: Counter[Where] = field(default_factory=Counter)

    @classmethod
    def written(cls, seed: int, tables: int, commits: int) -> Topics:
        draw = random.Random(seed)
        topics = cls(draw, [f"t{number}" for number in range(tables)])
        changes = [
            (commit, seq, table)
            for commit in range(1, commits + 1)
            for seq, table in enumerate(draw.choices(topics.tables, k=draw.randint(0, 5)))
        ]
        topics.publish(changes, commits)
        return topics

    def publish(self, changes: list[tuple[int, int, str]], commits: int) -> None:
        named: set[str] = set()
        after, offset = 0, 0
        while after < commits or named:
            idle = after == commits or self.draw.random() < 0.2
            closed = after if idle else self.draw.randint(after + 1, commits)
            turned = self.draw.choice(self.tables)
            if after == commits:
                named.clear()
            elif self.draw.random() < 0.4:
                named ^= {turned}
            events = [(ChangePosition(lsn(c), 0, lsn(s), Operation.INSERT), table)
                      for c, s, table in changes if after < c <= closed]  # fmt: skip
            rows = [(ChangePosition.of_snapshot(lsn(closed)), table)
                    for table in sorted(named) for _ in range(self.draw.randint(0, 2))]  # fmt: skip
            parts = [events, rows] if self.draw.random() < 0.5 else [[*events, *rows]]
            for number, part in enumerate(parts):
                is_last = number == len(parts) - 1
                record = Progress(
                    0, "s", "d", str(lsn(after)), str(lsn(closed if is_last else after)),
                    closed if is_last else None, is_last, 0, self.fill(part), sorted(named),
                )  # fmt: skip
                self.progress.append((offset, record))
                offset += self.draw.randint(1, 3)
            after = closed

    def fill(self, events: list[tuple[ChangePosition, str]]) -> list[PartitionProgress]:
        found: dict[Where, PartitionProgress] = {}
        for position, table in events:
            where = (table, self.draw.randrange(PARTITIONS))
            log = self.data.setdefault(where, [])
            if where not in found:
                self.ends[where] += self.draw.randint(0, 2)  # markers, aborted records
                if self.draw.random() < 0.2:
                    log.append((self.ends[where], b"foreign"))
                    self.ends[where] += 1
                found[where] = PartitionProgress(*where, self.ends[where], 0, 0, 0)
            log.append((self.ends[where], position.to_bytes()))
            self.ends[where] += 1
            found[where].count += 1
            if self.draw.random() < 0.3:
                log.append((self.ends[where], None))
                self.ends[where] += 1
            found[where].next_offset = self.ends[where]
        return list(found.values())


def decode(where: Where, offset: int, value: bytes) -> tuple[bytes, tuple[str, int, bytes]]:
    assert value != b"foreign", "the ledger does not count it"
    return value, (where[0], where[1], value)


class Reader:
    """Delivers what is asked for in an order of its own."""

    def __init__(self, topics: Topics, seed: int, mark: Bookmark | None = None, *, eager=False):
        self.topics = topics
        self.draw = random.Random(seed)
        self.eager = eager
        place = Place(0) if mark is None else mark.place
        self.order = CommitOrder[Any](decode, place, {} if mark is None else mark.consumed)
        self.records = GroupRecords(lambda _: True, place.lsn, place.named)
        self.unread = [found for found in topics.progress if found[0] >= place.offset]
        self.at: dict[Where, int] = {}

    @property
    def mark(self) -> Bookmark:
        text = str(Bookmark("p", self.order.place, self.order.consumed))
        return Bookmark.parse(text, "p")

    def steps(self) -> Iterator[Any]:
        while True:
            taken = self.order.take() if not self.eager or not self.deliverable() else None
            if taken is not None:
                yield taken
                continue
            choices = self.deliverable()
            if not choices:
                return
            for choice in self.draw.sample(choices, self.draw.randint(1, len(choices))):
                self.deliver(choice)

    def deliverable(self) -> list[Where]:
        for where, offset in self.order.to_fetch().items():
            self.at[where] = offset
            self.order.fetching(where)
        progress = [PROGRESS] if self.unread else []
        return [*progress, *(w for w, at in self.at.items() if at <= self.topics.ends[w])]

    def deliver(self, choice: Where) -> None:
        if choice == PROGRESS:
            group = self.records.add(*self.unread.pop(0))
            if group is not None:
                self.order.add(group)
            return
        following = [found for found in self.topics.data[choice] if found[0] >= self.at[choice]]
        for offset, value in following[: self.draw.randint(1, 4)]:
            self.order.push(choice, offset, value, len(value or b""))
            self.at[choice] = offset + 1
        if not following:
            self.order.reached_end(choice, self.topics.ends[choice])
            self.at[choice] = self.topics.ends[choice] + 1


def without_window_ends(taken: list[Any]) -> list[Any]:
    return [one for one in taken if not isinstance(one, WindowEnd)]


SEEDS = st.integers(0, 1 << 30)


@settings(deadline=None)
@given(SEEDS, SEEDS, st.integers(1, 4), st.integers(1, 12))
def test_any_interleaving_gives_the_same_sequence(seed: int, other: int, tables: int, commits: int):
    topics = Topics.written(seed, tables, commits)
    one = list(Reader(topics, other).steps())
    whole = list(Reader(topics, other, eager=True).steps())

    assert without_window_ends(one) == without_window_ends(whole)
    events = [found for found in one if isinstance(found, Ready)]
    written = [value for log in topics.data.values() for _, value in log]
    published = Counter(value for value in written if value not in {None, b"foreign"})
    assert Counter(found.event[2] for found in events) == published
    changes = [found.event[2] for found in events if found.event[2][-1] != Operation.READ]
    assert changes == sorted(changes)
    check_markers(one)


def check_markers(taken: list[Any]) -> None:
    """Rows come between the beginning and the end of their table's snapshot; closed is closed."""
    open_tables: set[str] = set()
    closed = ""
    for found in taken:
        match found:
            case Started(topic, after_lsn):
                assert after_lsn >= closed
                open_tables.add(topic)
            case Ended(topic, _):
                open_tables.remove(topic)
            case WindowEnd(closed_lsn, _):
                assert closed_lsn >= closed
                closed = closed_lsn
            case Ready(_, _, _, (topic, _, value)):
                position = ChangePosition.from_bytes(value)
                if position.operation is Operation.READ:
                    assert topic in open_tables
                    assert str(position.commit_lsn) >= closed
                else:
                    assert str(position.commit_lsn) > closed
    assert not open_tables


@settings(deadline=None)
@given(SEEDS, SEEDS, st.integers(1, 4), st.integers(1, 12), st.data())
def test_a_bookmark_continues_where_it_was_taken(
    seed: int, other: int, tables: int, commits: int, data: st.DataObject
):
    topics = Topics.written(seed, tables, commits)
    whole = list(Reader(topics, other).steps())
    kept: list[Any] = []
    mark: Bookmark | None = None
    for life in range(3):
        reader = Reader(topics, other + life, mark)
        for _ in range(data.draw(st.integers(0, len(whole)))):
            found = next(reader.steps(), None)
            if found is None:
                break
            kept.append(found)
            mark = reader.mark
    kept += Reader(topics, other, mark).steps()

    events = Counter(found.event for found in kept if isinstance(found, Ready))
    assert events == Counter(found.event for found in whole if isinstance(found, Ready))
    changes = [
        found.event[2]
        for found in kept
        if isinstance(found, Ready) and found.event[2][-1] != Operation.READ
    ]
    assert changes == sorted(changes)
    seen: set[str] = set()
    for found in kept:
        if isinstance(found, Started):
            seen.discard(found.topic)
        elif isinstance(found, Ended):
            seen.add(found.topic)
        elif isinstance(found, Ready) and found.event[2][-1] == Operation.READ:
            assert found.event[0] not in seen, "a row after the end of its snapshot"


def one_group(count: int) -> tuple[CommitOrder[Any], Mapping[Where, int]]:
    order = CommitOrder[Any](decode, Place(0))
    records = GroupRecords(lambda _: True)
    part = PartitionProgress("t", 0, 5, 8, count, 0)
    closing = Progress(0, "s", "d", str(lsn(0)), str(lsn(1)), 1, True, 0, [part])
    group = records.add(0, closing)
    assert isinstance(group, Group)
    order.add(group)
    assert order.take() is None
    return order, order.to_fetch()


def test_where_it_begins_is_closed_until_more_follows():
    order = CommitOrder[Any](decode, Place(5, str(lsn(3))))
    assert order.take() == WindowEnd(str(lsn(3)), None)
    assert order.take() is None
    order.add(Group(5, 6, str(lsn(3)), str(lsn(4)), 7, ()))
    assert order.take() == WindowEnd(str(lsn(4)), 7)
    assert order.take() is None
    assert CommitOrder[Any](decode, Place(0)).take() is None


def test_events_that_retention_or_compaction_removed_are_noticed():
    order, fetch = one_group(2)
    assert fetch == {("t", 0): 5}
    value = ChangePosition(lsn(1), 0, lsn(1), Operation.INSERT).to_bytes()
    order.push(("t", 0), 7, value, 25)
    assert isinstance(order.take(), Ready)
    order.reached_end(("t", 0), 9)
    with pytest.raises(EventsRemoved, match=r"t partition 0 holds 1 events at offsets 5 to 7, 2"):
        order.take()
    with pytest.raises(EventsRemoved):
        order.take()


def test_what_decode_raises_takes_nothing():
    failures = [OSError("down")]

    def fails_once(where: Where, offset: int, value: bytes) -> tuple[bytes, bytes]:
        if failures:
            raise failures.pop()
        return value, value

    order, _ = one_group(1)
    order._decode = fails_once
    value = ChangePosition(lsn(1), 0, lsn(1), Operation.INSERT).to_bytes()
    order.push(("t", 0), 5, value, 25)
    with pytest.raises(OSError, match="down"):
        order.take()
    found = order.take()
    assert isinstance(found, Ready)
    assert found.event == value
