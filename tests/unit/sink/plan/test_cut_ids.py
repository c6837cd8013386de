"""A cut has the same records for good, however the log and the tables went on."""

from __future__ import annotations

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
from tailrace_sink.reading.cut_errors import PointInvalid
from tailrace_sink.reading.cut_id import CutId, closes_again, cut_id, row_of_cut
from tailrace_sink.reading.point import LATEST, Point, lsn_or_time
from tailrace_sink.reading.tail_plan import records_up_to
from tests.unit.sink.plan.progress_records import NAMES, TOPIC, lsn, plan, record
from tests.unit.sink.plan.test_log_slices import MemoryLogTable

pytestmark = pytest.mark.guarantee(14)
Records = frozenset[int]
"""Offset of each."""
ALL = Bound(1 << 62)
LSN = "0000002a:00000007:000b"


@dataclass
class Lake:
    """A log and the commit rows of its fold, as readers choose among them."""

    log: MemoryLogTable
    rows: list[SinkState] = field(default_factory=list)
    all: dict[int, str] = field(default_factory=dict)
    """LSN that each record closes."""

    def slices(self) -> LogSlices:
        return LogSlices(self.log, NAMES.progress, lambda _: PROGRESS_SCHEMA)  # type: ignore[arg-type]

    def fold(self, changes_max: int) -> None:
        state = self.rows[-1] if self.rows else SinkState()
        records = records_up_to(self.slices(), state, Point(), self.log.state.batch)
        backlog = Backlog.of(state, records)
        bound = Bound(changes_max)
        while found := plan_batch(state, backlog, NAMES, bound, stops_at_first=True):
            state = found.following
            self.rows.append(state)

    def cut(self, point: Point) -> tuple[SinkState, Records]:
        """Read a cut as both readers do."""
        state = self._row(point)
        records = records_up_to(self.slices(), state, point, self.log.state.batch)
        backlog = Backlog.of(state, records)
        found = plan_batch(state, backlog, NAMES, ALL, up_to=point.lsn)
        state = state if found is None else found.following
        at = state.position
        return state, frozenset(of for of in self.all if at is not None and of < at.next_offset)

    def truth(self, of: SinkState) -> Records:
        """What the cut at the newest closed LSN of a state of the log has."""
        return frozenset(
            offset
            for offset, closed in self.all.items()
            if closed <= of.closed_lsn and offset < of.batch
        )

    def _row(self, point: Point) -> SinkState:
        rows = [row for row in self.rows if point.lsn is None or row.closed_lsn <= point.lsn]
        if rows and rows[-1].closed_lsn == point.lsn:
            at = [row for row in rows if row.closed_lsn == point.lsn]
            batch = row_of_cut((row.batch for row in at), point.batch)
            before = [row for row in rows if row.closed_lsn < point.lsn]
            rows = before if batch is None else [row for row in at if row.batch == batch]
        return rows[-1] if rows else SinkState()


STEPS = st.lists(
    st.tuples(
        st.integers(0, 2),  # by how much the LSN grows
        st.booleans(),  # whether the log takes what waits
        st.sampled_from([0, 0, 1, 2, 1000]),  # changes of a fold
    ),
    min_size=1,
    max_size=25,
)


@settings(deadline=None, max_examples=150)
@given(steps=STEPS, changes_max=st.sampled_from([1, 3]))
def test_a_cut_that_was_readable_stays(steps: list[tuple[int, bool, int]], changes_max: int):
    """By its id, and the first one at each LSN: a record may close an LSN again at any time."""
    log, incoming = MemoryLogTable(changes_max), Backlog(SinkState())
    lake, after = Lake(log), 0
    known: dict[str, Records] = {}
    for offset, (by, is_taken, fold) in enumerate([(1, True, 0), *steps]):
        incoming.add([record(offset, after, after + by, (TOPIC, offset, offset + 1))])
        after += by
        lake.all[offset] = lsn(after)
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
        cut = cut_id(log, state.closed_lsn, state.batch)
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
    assert cut_id(log, lsn(2), 2) == CutId(lsn(2))


def test_a_cut_of_the_log_whose_records_all_start_at_its_lsn_closes_it_again():
    first, again = record(0, 0, 1).progress, record(1, 1, 1).progress
    assert not closes_again(CutId(lsn(1), 1), [first, again])
    assert closes_again(CutId(lsn(1), 2), [again])
