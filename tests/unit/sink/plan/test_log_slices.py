"""What a reader and a start read of a long log: what they need, however many cuts it has."""

from __future__ import annotations

import io
from bisect import bisect
from operator import itemgetter

import fastavro

from tailrace_schemas.events.framing import frame_header
from tailrace_schemas.records.progress import PROGRESS_SCHEMA
from tailrace_sink.log.progress_feed import Feed, LogSlices
from tailrace_sink.options.batch_bound import Bound
from tailrace_sink.plan.batch_plan import plan_batch
from tailrace_sink.plan.cut_plan import plan_cut
from tailrace_sink.plan.log_state import LogState, Mark
from tailrace_sink.plan.progress_groups import Backlog
from tailrace_sink.plan.progress_record import ProgressRecord
from tailrace_sink.plan.sink_state import SinkState
from tailrace_sink.reading.point import Point
from tailrace_sink.reading.tail_plan import records_up_to
from tests.unit.sink.plan.progress_records import NAMES, TOPIC, lsn, record

SCHEMA = fastavro.parse_schema(PROGRESS_SCHEMA)
CUTS = 20


def framed(found: ProgressRecord) -> bytes:
    body = io.BytesIO()
    fastavro.schemaless_writer(body, SCHEMA, found.progress.to_record())
    return frame_header(1) + body.getvalue()


class MemoryLogTable:
    """A log table in memory, which counts the rows that a read looks at."""

    def __init__(self, changes_max: int = 1) -> None:
        self._bound = Bound(changes_max)
        self.state = SinkState()
        self.states_of: list[LogState] = []
        self.records: list[tuple[int, int, int, bytes]] = []
        self.looks = 0

    def append(self, incoming: Backlog) -> None:
        while cut := plan_cut(self.state, frozenset(), incoming, NAMES, self._bound):
            self.state = cut.following
            self.states_of.append(LogState(cut.following, 1, "me"))
            self.records += [
                (self.state.batch, one.partition, one.offset, framed(one)) for one in cut.records
            ]

    def mark(self) -> Mark:
        return Mark(1, self.state.batch)

    def states(self, after: int, up_to: int, limit: int) -> list[LogState]:
        first, end = (bisect(self.states_of, at, key=_batch_of) for at in (after, up_to))
        found = self.states_of[first:end]
        self.looks += len(found)  # all of them are read to sort them
        return found[:limit]

    def progress(self, _topic: str, after: int, up_to: int) -> list[tuple[int, int, int, bytes]]:
        first, end = (bisect(self.records, at, key=itemgetter(0)) for at in (after, up_to))
        found = self.records[first:end]
        self.looks += len(found)
        return found

    def progress_bytes(self, topic: str, after: int, up_to: int) -> list[tuple[int, int]]:
        return [(row[0], len(row[3])) for row in self.progress(topic, after, up_to)]


def _batch_of(found: LogState) -> int:
    return found.state.batch


def filled(cuts: int) -> tuple[MemoryLogTable, list[SinkState]]:
    """A log, and the states of folds of two LSNs each."""
    log, incoming = MemoryLogTable(), Backlog(SinkState())
    for n in range(cuts):
        incoming.add([record(n, n, n + 1, (TOPIC, n, n + 1))])
        log.append(incoming)
    slices = LogSlices(log, NAMES.progress, lambda _: PROGRESS_SCHEMA)  # type: ignore[arg-type]
    backlog = Backlog.of(SinkState(), records_up_to(slices, SinkState(), Point(), log.state.batch))
    states = [SinkState()]
    while found := plan_batch(states[-1], backlog, NAMES, Bound(2)):
        states.append(found.following)
    return log, states


def test_a_log_that_grows_while_it_is_read_is_read_to_where_it_ended():
    class Growing(MemoryLogTable):
        """A log that gets a cut at each read."""

        def progress(self, topic: str, after: int, up_to: int) -> list[tuple[int, int, int, bytes]]:
            found = super().progress(topic, after, up_to)
            at = len(self.states_of)
            assert at < 2 * CUTS, "it is read for ever"
            incoming.add([record(at, at, at + 1, (TOPIC, at, at + 1))])
            self.append(incoming)
            return found

    log, incoming = Growing(), Backlog(SinkState())
    for at in range(CUTS):
        incoming.add([record(at, at, at + 1, (TOPIC, at, at + 1))])
        log.append(incoming)
    newest = log.state
    slices = LogSlices(log, NAMES.progress, lambda _: PROGRESS_SCHEMA)  # type: ignore[arg-type]
    records = records_up_to(slices, SinkState(), Point(), newest.batch)
    backlog = Backlog.of(SinkState(), records)
    found = plan_batch(SinkState(), backlog, NAMES, Bound(1 << 62))
    assert found is not None
    assert found.following.closed_lsn >= newest.closed_lsn


def test_what_a_point_needs_does_not_grow_with_the_cuts_of_the_log():
    """The newest point and the oldest one: neither the log's end nor its start is read."""
    looks = {}
    for cuts in (800, 1_600):
        log, states = filled(cuts)
        slices = LogSlices(log, NAMES.progress, lambda _: PROGRESS_SCHEMA)  # type: ignore[arg-type]
        for state in (states[5], states[len(states) // 2], states[-2]):
            fresh = LogSlices(log, NAMES.progress, lambda _: PROGRESS_SCHEMA)  # type: ignore[arg-type]
            log.looks = 0
            at = int(state.closed_lsn.split(":")[1], 16) + 1
            records = records_up_to(fresh, state, Point(lsn(at)), log.state.batch)
            backlog = Backlog.of(state, records)
            found = plan_batch(state, backlog, NAMES, Bound(1 << 62))
            assert found is not None
            assert found.following.closed_lsn == lsn(at)
            looks[cuts, states.index(state) > 5, state is states[-2]] = log.looks
        records = records_up_to(slices, states[5], Point(commit_ms=1000 + 14), log.state.batch)
        by_time = Backlog.of(states[5], records)
        found = plan_batch(states[5], by_time, NAMES, Bound(1 << 62))
        assert found is not None
        assert found.following.closed_lsn == lsn(14)
    few, many = (max(n for (c, *_), n in looks.items() if c == cuts) for cuts in (800, 1_600))
    assert many <= few + 10
    assert many < 1_000


def test_a_start_does_not_read_the_log_from_its_beginning():
    log, states = filled(1_200)
    feed = Feed(LogSlices(log, NAMES.progress, lambda _: PROGRESS_SCHEMA))  # type: ignore[arg-type]
    log.looks = 0
    state = states[-20]
    feed.open(state)
    while True:
        found = plan_batch(state, feed.backlog(), NAMES, Bound(10))
        if found is not None:
            state = found.following
        elif not feed.more():
            break
    assert state.closed_lsn == states[-1].closed_lsn
    assert state.offsets == states[-1].offsets
    assert log.looks < 1_000
