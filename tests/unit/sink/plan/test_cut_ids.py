"""A cut has the same records for good, however the log and the tables went on."""

from __future__ import annotations

import json
from dataclasses import dataclass, field, replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tailrace_schemas.records.progress import PROGRESS_SCHEMA
from tailrace_sink.log.progress_feed import LogSlices
from tailrace_sink.options.batch_bound import Bound
from tailrace_sink.plan.batch_plan import plan_batch
from tailrace_sink.plan.log_state import LogState
from tailrace_sink.plan.progress_groups import Backlog
from tailrace_sink.plan.sink_state import SinkState
from tailrace_sink.plan.state_json import shards_json
from tailrace_sink.reading.cut_errors import PointInvalid
from tailrace_sink.reading.cut_id import CutId, closes_again, cut_id, row_of_cut
from tailrace_sink.reading.point import LATEST, Point, lsn_or_time
from tailrace_sink.reading.tail_plan import records_up_to
from tests.unit.sink.plan.progress_records import NAMES, OTHER, TOPIC, lsn, plan, record
from tests.unit.sink.plan.test_log_slices import MemoryLogTable

pytestmark = pytest.mark.guarantee(14)
Records = frozenset[tuple[int, int]]
"""Shard and offset of each."""
ALL = Bound(1 << 62)
LSN = "0000002a:00000007:000b"


@dataclass
class Lake:
    """A log and the commit rows of its fold, as readers choose among them."""

    log: MemoryLogTable
    shards: int
    rows: list[SinkState] = field(default_factory=list)
    all: dict[tuple[int, int], str] = field(default_factory=dict)
    """LSN that each record closes."""

    def slices(self) -> LogSlices:
        return LogSlices(self.log, NAMES.progress, lambda _: PROGRESS_SCHEMA)  # type: ignore[arg-type]

    def fold(self, changes_max: int) -> None:
        state = self.rows[-1] if self.rows else SinkState()
        records = records_up_to(self.slices(), state, Point(), self.log.state.batch)
        backlog = Backlog.of(state, records)
        bound, shards = Bound(changes_max), self.shards
        while found := plan_batch(state, backlog, NAMES, bound, shards=shards, stops_at_first=True):
            state = found.following
            self.rows.append(state)

    def cut(self, point: Point) -> tuple[SinkState, Records]:
        """Read a cut as both readers do."""
        state = self._row(point)
        newest, shards = self.log.state.batch, self.shards
        records = records_up_to(self.slices(), state, point, newest, shards)
        backlog = Backlog.of(state, records)
        found = plan_batch(state, backlog, NAMES, ALL, shards=shards, up_to=point.lsn)
        state = state if found is None else found.following
        passed = {
            (shard, offset)
            for shard, offset in self.all
            if shard in state.shards and offset < state.shards[shard].next_offset
        }
        return state, frozenset(passed)

    def truth(self, of: SinkState) -> Records:
        """What the cut at the newest closed LSN of a state of the log has."""
        return frozenset(
            (shard, offset)
            for (shard, offset), closed in self.all.items()
            if closed <= of.closed_lsn and offset < of.shards[shard].next_offset
        )

    def _row(self, point: Point) -> SinkState:
        rows = [row for row in self.rows if point.lsn is None or row.closed_lsn <= point.lsn]
        if rows and rows[-1].closed_lsn == point.lsn:
            at = [row for row in rows if row.closed_lsn == point.lsn]
            listed = [(row.batch, json.dumps(shards_json(row.shards))) for row in at]
            states = self.log.states((point.batch or 0) - 1, point.batch or 0, 1)
            cut = states[0].state if states else None
            batch = row_of_cut(listed, point.batch, cut)
            before = [row for row in rows if row.closed_lsn < point.lsn]
            rows = before if batch is None else [row for row in at if row.batch == batch]
        return rows[-1] if rows else SinkState()


STEPS = st.lists(
    st.tuples(
        st.integers(0, 1),  # shard
        st.integers(0, 2),  # by how much its LSN grows
        st.booleans(),  # whether the log takes what waits
        st.sampled_from([0, 0, 1, 2, 1000]),  # changes of a fold
    ),
    min_size=1,
    max_size=25,
)


@pytest.mark.parametrize("shards", [1, 2])
@settings(deadline=None, max_examples=150)
@given(steps=STEPS, changes_max=st.sampled_from([1, 3]))
def test_a_cut_that_was_readable_stays(
    shards: int, steps: list[tuple[int, int, bool, int]], changes_max: int
):
    """By its id, and the first one at each LSN: a record may close an LSN again at any time."""
    log, incoming = MemoryLogTable(changes_max, shards), Backlog(SinkState())
    lake = Lake(log, shards)
    at, offsets = [0] * shards, [0] * shards
    known: dict[str, Records] = {}
    start = [(shard, 1, True, 0) for shard in range(shards)]
    for drawn, by, is_taken, fold in [*start, *steps]:
        shard = drawn % shards
        topic = (TOPIC, OTHER)[shard]
        offset, after = offsets[shard], at[shard]
        at[shard], offsets[shard] = after + by, offset + 1
        found = record(
            offset, after, after + by, (topic, offset, offset + 1), shard=shard, partition=shard
        )
        incoming.add([found])
        lake.all[shard, offset] = lsn(after + by)
        if not is_taken:
            continue
        count = len(log.states_of)
        log.append(incoming)
        for of in log.states_of[count:]:
            if of.state.closed_lsn:
                known.setdefault(of.state.closed_lsn, lake.truth(of.state))
        if fold:
            lake.fold(fold)
        if not log.state.closed_lsn:
            continue
        state, records = lake.cut(Point())
        assert records == lake.truth(log.state)
        cut = cut_id(log, state.closed_lsn, state.batch, state.shards)
        assert cut.batch is not None
        known.setdefault(str(cut), records)
        for text, had in known.items():
            state, records = lake.cut(Point.of(LATEST, text, None))
            assert (state.closed_lsn, records) == (text.partition("@")[0], had), text


def test_the_fold_stops_at_the_first_cut_at_an_lsn():
    """What closes it again in a later cut of the log is the next batch."""
    closings = [(0, 1), (1, 1), (1, 2), (2, 2), (2, 2)]
    records = [
        replace(record(n, after, closed, (TOPIC, n, n + 1)), batch=batch)
        for n, ((after, closed), batch) in enumerate(zip(closings, (1, 2, 3, 3, 4), strict=True))
    ]
    found = plan(SinkState(), records)
    assert found is not None
    assert (found.following.batch, found.count) == (5, 5)
    backlog = Backlog.of(SinkState(), records)
    first = plan_batch(SinkState(), backlog, NAMES, ALL, stops_at_first=True)
    assert first is not None
    assert (first.following.closed_lsn, first.count) == (lsn(2), 4)
    second = plan_batch(first.following, backlog, NAMES, ALL, stops_at_first=True)
    assert second is not None
    assert (second.following.closed_lsn, second.count, second.moves) == (lsn(2), 1, True)


def test_the_time_of_a_cut_of_the_log_moves_with_what_closes_its_lsn_again():
    log, incoming = MemoryLogTable(), Backlog(SinkState())
    incoming.add([record(0, 0, 1, (TOPIC, 0, 1))])
    again = record(1, 1, 1, (TOPIC, 1, 2))
    later = replace(again.progress, closed_commit_ms=5_000)
    incoming.add([replace(again, progress=later)])
    log.append(incoming)
    assert [of.state.closed_commit_ms for of in log.states_of] == [1_001, 5_000]


@pytest.mark.parametrize("text", [f"{LSN}@7", f" {LSN.upper()}@7 ", "0x0000002A00000007000B@7"])
def test_the_id_of_a_cut_is_a_point(text: str):
    assert Point.of(LATEST, text, None) == Point(lsn=LSN, batch=7)
    assert lsn_or_time(text) == f"{LSN}@7"
    assert f"{LSN}@7" in Point.of(LATEST, text, None).phrase


@pytest.mark.parametrize("text", [f"{LSN}@", f"{LSN}@x", f"{LSN}@-1", f"{LSN}@7@8"])
def test_what_is_no_id_is_refused(text: str):
    with pytest.raises(PointInvalid, match=r"no id of a cut\. Fix: write it as cut\.id shows it"):
        Point.of(LATEST, text, None)


def test_a_log_that_lacks_the_cut_gives_the_lsn_alone():
    log = MemoryLogTable()
    log.states_of = [LogState(SinkState(3, lsn(1)), 1, "me")]
    assert cut_id(log, lsn(2), 2, {}) == CutId(lsn(2))


def test_a_cut_of_the_log_whose_records_all_start_at_its_lsn_closes_it_again():
    first, again = record(0, 0, 1).progress, record(1, 1, 1).progress
    assert not closes_again(CutId(lsn(1), 1), [first, again])
    assert closes_again(CutId(lsn(1), 2), [again])
