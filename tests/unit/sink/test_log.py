"""The log's plan, its mark, and its state row: pure."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from tailrace_sink.options.batch_bound import Bound
from tailrace_sink.plan.batch_plan import plan_batch
from tailrace_sink.plan.cut_plan import LogCut, Named, plan_cut
from tailrace_sink.plan.log_state import LogState, Mark
from tailrace_sink.plan.progress_groups import Backlog
from tailrace_sink.plan.progress_record import Loss, ProgressRecord
from tailrace_sink.plan.sink_state import SinkState
from tests.unit.sink.plan.progress_records import NAMES, OTHER, TOPIC, lsn, record


def plan(
    records: Iterable[ProgressRecord],
    state: SinkState | None = None,
    named: Named | None = None,
    changes_max: int = 10**6,
    bytes_max: int = 10**9,
) -> LogCut | None:
    return plan_cut(
        state or SinkState(),
        named or frozenset(),
        Backlog.of(state or SinkState(), records),
        NAMES,
        Bound(changes_max, bytes_max),
    )


def planned(records: Iterable[ProgressRecord], **options: object) -> LogCut:
    found = plan(records, **options)  # type: ignore[arg-type]
    assert found is not None
    return found


def test_a_cut_takes_whole_transactions():
    opened = record(2, 5, 5, (TOPIC, 4, 9), closed=False)
    found = planned([record(0, 0, 5, (TOPIC, 0, 3), (OTHER, 0, 2)), opened])

    assert {topic: of.partitions for topic, of in found.topics.items()} == {
        TOPIC: {0: (0, 3)},
        OTHER: {0: (0, 2)},
    }
    assert (found.count, found.following.batch, found.following.closed_lsn) == (5, 1, lsn(5))
    assert [of.offset for of in found.records] == [0]
    assert plan([opened], found.following) is None


def test_the_bound_is_kept_but_one_transaction_is_always_taken():
    records = [record(n, n, n + 1, (TOPIC, 10 * n, 10 * n + 10)) for n in range(4)]

    state, taken = SinkState(), []
    while (found := plan(records, state, changes_max=25)) is not None:
        taken.append(found.count)
        state = found.following
    assert taken == [20, 20]
    assert planned(records, changes_max=1).count == 10


def test_few_large_changes_are_bounded_by_their_bytes():
    records = [record(n, n, n + 1, (TOPIC, n, n + 1), size=400) for n in range(5)]

    state, taken = SinkState(), []
    while (found := plan(records, state, bytes_max=1_000)) is not None:
        taken.append((found.count, sum(of.bytes for of in found.topics.values())))
        state = found.following
    assert taken == [(2, 800), (2, 800), (1, 400)]
    assert planned(records, bytes_max=1).count == 1


def test_a_snapshot_is_taken_as_it_comes():
    """The log does not hold anything back: what waits for the end of a snapshot waits in it."""
    named = planned([record(0, 0, 5, snapshotting=[OTHER])])
    assert named.moves
    assert named.topics == {}
    assert named.named == {OTHER}
    same = record(1, 5, 5, snapshotting=[OTHER])
    assert not planned([same], state=named.following, named=named.named).moves
    rows = planned(
        [record(1, 5, 5, (OTHER, 0, 4), snapshotting=[OTHER])],
        state=named.following,
        named=named.named,
    )
    assert rows.moves
    assert rows.count == 4


def test_a_topic_that_was_made_again_is_read_from_its_beginning():
    found = planned([record(0, 0, 1, (TOPIC, 50, 60)), record(1, 1, 2, (TOPIC, 0, 3))])
    assert found.topics[TOPIC].partitions == {0: (0, 3)}
    assert found.count == 3


def test_marks_order_by_epoch_then_batch():
    assert Mark(2, 5).version > Mark(1, 10**9).version > Mark(1, 5).version
    assert Mark.of_version(Mark(3, 12).version) == Mark(3, 12)


def test_the_state_row_is_read_as_it_was_written():
    state = LogState(
        planned([record(0, 0, 5, (TOPIC, 0, 3))]).following,
        epoch=3,
        owner="me",
        named=frozenset({OTHER}),
        lost={TOPIC: Loss("gone"), OTHER: Loss("some", {2: 5})},
        published_ms=5,
        is_start=True,
        prefix="p",
        deletes="soft",
    )
    assert LogState.of_json(state.to_json()) == state


def test_the_fold_stops_what_the_log_lacks():
    """In the middle of changes, and in the middle of a snapshot, which then is of no use."""
    lost = {TOPIC: Loss("gone"), OTHER: Loss("gone, too")}
    records = [
        record(0, 0, 1, (TOPIC, 0, 3), (OTHER, 0, 2), snapshotting=[OTHER]),
        replace(
            record(1, 1, 2, (TOPIC, 3, 6), (OTHER, 2, 4), snapshotting=[OTHER]), batch=2, lost=lost
        ),
        record(2, 2, 3, (TOPIC, 6, 9), (OTHER, 4, 6)),
    ]
    found = plan_batch(SinkState(), Backlog.of(SinkState(), records), NAMES, Bound(10**6))
    assert found is not None
    assert {of.topic: dict(of.partitions) for of in found.topics} == {TOPIC: {0: (0, 3)}}
    assert found.following.stopped == {TOPIC: "gone", OTHER: "gone, too"}
    assert found.following.held == {}

    again = [
        record(3, 3, 3, snapshotting=[OTHER]),
        record(4, 3, 4, (OTHER, 6, 8), snapshotting=[OTHER]),
        record(5, 4, 4),
    ]
    whole = plan_batch(found.following, Backlog.of(found.following, again), NAMES, Bound(10**6))
    assert whole is not None
    assert {of.topic: dict(of.partitions) for of in whole.topics} == {OTHER: {0: (6, 8)}}
    assert whole.following.stopped == {TOPIC: "gone"}
