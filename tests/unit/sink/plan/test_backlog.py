"""What waits to be planned: looked at once, and within a memory that does not grow with it."""

from __future__ import annotations

import io
import random
import tracemalloc
from collections.abc import Iterable, Iterator
from dataclasses import replace

import fastavro
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tailrace_schemas.events.framing import frame_header
from tailrace_schemas.records.progress import PROGRESS_SCHEMA
from tailrace_sink.log.progress_feed import Feed, Slice
from tailrace_sink.options.batch_bound import Bound
from tailrace_sink.plan.batch_plan import plan_batch
from tailrace_sink.plan.cut_plan import plan_cut
from tailrace_sink.plan.log_state import Logged
from tailrace_sink.plan.progress_groups import Backlog, Group
from tailrace_sink.plan.progress_record import ProgressRecord, decode_progress
from tailrace_sink.plan.sink_state import SinkState
from tailrace_sink.plan.slice_size import SliceSize, fitting
from tests.unit.sink.plan.progress_records import NAMES, lsn, record
from tests.unit.sink.plan.test_progress import histories

MANY = [f"p.shop.dbo.t{number}" for number in range(50)]


def all_plans(backlog: Backlog, changes_max: int) -> list[SinkState]:
    states = [SinkState()]
    while found := plan_batch(states[-1], backlog, NAMES, Bound(changes_max)):
        states.append(found.following)
    return states


@given(histories(), st.integers(1, 10), st.randoms(use_true_random=False))
def test_records_that_come_in_pieces_and_again_are_planned_as_if_all_were_there(
    records: list[ProgressRecord], changes_max: int, chance: random.Random
):
    backlog, at = Backlog(SinkState()), 0
    while at < len(records):
        step = chance.randint(1, 4)
        again = max(0, at - chance.randint(0, 3))
        piece = records[again : at + step]
        backlog.add(chance.sample(piece, len(piece)))
        at += step
    whole = Backlog.of(SinkState(), records)
    assert (backlog.count, backlog.length) == (whole.count, whole.length)
    assert all_plans(backlog, changes_max) == all_plans(whole, changes_max)
    assert (backlog.count, backlog.length) == (whole.count, whole.length)
    assert backlog.length == len(list(backlog.records()))


class MemoryLog:
    """Cuts of a log: batch ids and records."""

    def __init__(self) -> None:
        self.cuts: list[Logged] = []
        self.size = 1

    def append(self, records: Iterable[ProgressRecord]) -> Logged:
        before = self.cuts[-1].batch if self.cuts else 0
        taken = tuple(records)
        self.cuts.append(Logged(before, before + len(taken), taken))
        return self.cuts[-1]

    def after(self, batch: int) -> Slice | None:
        found = [cut for cut in self.cuts if cut.batch > batch][: self.size]
        if not found:
            return None
        return Slice(SinkState(found[-1].batch), [r for cut in found for r in cut.records])


@given(histories(), st.integers(1, 10), st.randoms(use_true_random=False))
def test_a_feed_that_holds_little_plans_everything(
    records: list[ProgressRecord], changes_max: int, chance: random.Random
):
    """Whether cuts are offered or read."""
    sized = [replace(one, value=bytes(chance.randint(1, 9))) for one in records]
    log = MemoryLog()
    feed = Feed(log, bytes_max=chance.choice([1, 8, 20, 1000]))  # type: ignore[arg-type]
    state = SinkState()
    feed.open(state)

    def fold() -> None:
        nonlocal state
        while True:
            log.size = chance.randint(1, 3)
            found = plan_batch(state, feed.backlog(), NAMES, Bound(changes_max))
            if found is not None:
                state = found.following
            elif not feed.more():
                return

    logged, incoming = SinkState(), Backlog(SinkState())
    for one in sized:
        incoming.add([one])
        if chance.random() < 0.5:
            continue
        while cut := plan_cut(logged, frozenset(), incoming, NAMES, Bound(3)):
            logged, appended = cut.following, log.append(cut.records)
            if chance.random() < 0.7:
                feed.offer(appended)
        if chance.random() < 0.3:
            fold()
    fold()
    # What the log has not taken, the tables do not have either.
    sized = [one for cut in log.cuts for one in cut.records]
    expected = all_plans(Backlog.of(SinkState(), sized), 10**9)[-1]
    assert (state.closed_lsn, state.offsets, state.position) == (
        expected.closed_lsn,
        expected.offsets,
        expected.position,
    )


def test_what_waits_for_the_fold_is_held_within_the_bound():
    log = MemoryLog()
    feed = Feed(log, bytes_max=100)  # type: ignore[arg-type]
    state = SinkState()
    feed.open(state)
    for n in range(1000):
        one = replace(record(n, n, n + 1, (MANY[0], n, n + 1)), value=bytes(10))
        feed.offer(log.append([one]))
        assert feed.backlog().length < 25
    while True:
        found = plan_batch(state, feed.backlog(), NAMES, Bound(10**6))
        assert feed.backlog().length < 50
        if found is not None:
            state = found.following
        elif not feed.more():
            break
    assert state.closed_lsn == lsn(1000)
    assert state.offsets == {MANY[0]: {0: 1000}}


def framed(number: int) -> bytes:
    """A record of fifty tables as it is in the topic."""
    body = io.BytesIO()
    ranges = [(topic, number, number + 1) for topic in MANY]
    progress = record(number, number, number + 1, *ranges).progress
    fastavro.schemaless_writer(body, fastavro.parse_schema(PROGRESS_SCHEMA), progress.to_record())
    return frame_header(1) + body.getvalue()


def test_what_an_outage_left_is_planned_within_a_fixed_memory():
    """All of them decoded take 19 MB; the first slice of 200 records takes the most, 5 MB."""

    def slices() -> Iterator[list[ProgressRecord]]:
        size, at = SliceSize(128 * 1024), 0
        while at < len(pending):
            part = pending[at : at + size.offsets]
            size.learn(len(part), sum(map(len, part)))
            yield [
                ProgressRecord(0, at + n, decode_progress(value, lambda _: PROGRESS_SCHEMA), value)
                for n, value in enumerate(part)
            ]
            at += len(part)

    pending = [framed(number) for number in range(800)]
    state, cuts, backlog = SinkState(), 0, Backlog(SinkState())
    tracemalloc.start()
    try:
        for records in slices():
            backlog.add(records)
            while cut := plan_cut(state, frozenset(), backlog, NAMES, Bound(1_000)):
                state, cuts = cut.following, cuts + 1
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert state.closed_lsn == lsn(800)
    assert cuts >= 40
    assert peak < 9_000_000


def test_a_slice_ends_before_records_that_are_larger_than_those_before_them():
    """An idle publisher's records are small: the slice that follows them has many offsets."""
    sizes = [(n, 10) for n in range(5)] + [(n, 1000) for n in range(5, 9)]
    assert fitting(sizes, 60) == 4
    assert fitting(sizes, 10_000) == 8
    assert fitting(sizes[5:], 60) == 5, "one is always read"
    assert fitting([], 60) is None


def test_planning_looks_at_what_it_takes_and_not_at_all_that_waits(
    monkeypatch: pytest.MonkeyPatch,
):
    looks = 0
    original = Group.closed_lsn

    def counted(group: Group) -> str:
        nonlocal looks
        looks += 1
        return str(original.__get__(group))

    monkeypatch.setattr(Group, "closed_lsn", property(counted))
    groups = 2_000
    backlog = Backlog.of(
        SinkState(), (record(n, n, n + 1, (MANY[0], n, n + 1)) for n in range(groups))
    )
    state, cuts = SinkState(), 0
    while cut := plan_cut(state, frozenset(), backlog, NAMES, Bound(2)):
        state, cuts = cut.following, cuts + 1
    assert (state.closed_lsn, cuts) == (lsn(groups), groups // 2)
    assert looks < 10 * groups
