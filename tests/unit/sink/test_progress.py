"""Planning cuts from progress records, without Kafka or Spark."""

from __future__ import annotations

import itertools
import json
import random
from collections.abc import Iterable
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tailrace_sink.errors import ForeignRecord, LsnWentBackwards, ProgressGap
from tailrace_sink.intake.expired_progress import begin_at
from tailrace_sink.log.intent import plan_json, plan_of
from tailrace_sink.options.batch_bound import Bound
from tailrace_sink.plan.batch_plan import plan_batch
from tailrace_sink.plan.progress_groups import Backlog
from tailrace_sink.plan.progress_record import Loss, ProgressRecord
from tailrace_sink.plan.sink_state import BatchPlan, SinkState
from tailrace_sink.plan.state_json import state_json, state_of
from tests.unit.sink.progress_records import NAMES, OTHER, TOPIC, lsn, record


def plan(
    state: SinkState, records: Iterable[ProgressRecord], changes_max: int = 10**6, shards: int = 1
) -> BatchPlan | None:
    return plan_batch(state, Backlog.of(state, records), NAMES, Bound(changes_max), shards=shards)


def planned(
    state: SinkState, records: Iterable[ProgressRecord], changes_max: int = 10**6, shards: int = 1
) -> BatchPlan:
    found = plan(state, records, changes_max, shards)
    assert found is not None
    return found


def ranges(found: BatchPlan) -> dict[str, dict[int, tuple[int, int]]]:
    return {topic.topic: dict(topic.partitions) for topic in found.topics}


def test_nothing_without_records():
    assert plan(SinkState(), []) is None


def test_records_up_to_the_newest_closed_lsn_are_one_cut():
    found = planned(
        SinkState(),
        [record(0, 0, 5, (TOPIC, 0, 3)), record(2, 5, 8, (TOPIC, 4, 6), (OTHER, 0, 1))],
    )

    assert ranges(found) == {TOPIC: {0: (0, 6)}, OTHER: {0: (0, 1)}}
    assert found.following.closed_lsn == lsn(8)
    assert found.following.closed_commit_ms == 1008
    assert found.following.batch == 3
    assert found.following.offsets == {TOPIC: {0: 6}, OTHER: {0: 1}}
    assert found.count == 6
    assert found.moves


def test_an_open_transaction_waits_for_its_end():
    first = record(0, 0, 5, (TOPIC, 0, 3))
    opened = record(2, 5, 5, (TOPIC, 4, 9), closed=False)
    ended = record(4, 5, 9, (TOPIC, 10, 12))

    before = planned(SinkState(), [first, opened])
    assert ranges(before) == {TOPIC: {0: (0, 3)}}
    assert plan(before.following, [first, opened]) is None

    after = planned(before.following, [first, opened, ended])
    assert ranges(after) == {TOPIC: {0: (4, 12)}}
    assert after.following.closed_lsn == lsn(9)


def test_the_bound_cuts_at_closed_lsns_only():
    records = [
        record(0, 0, 1, (TOPIC, 0, 4)),
        record(1, 1, 2, (TOPIC, 4, 8)),
        record(2, 2, 2, (TOPIC, 8, 20), closed=False),
        record(3, 2, 3, (TOPIC, 20, 21)),
    ]
    state = SinkState()
    cuts = []
    while (found := plan(state, records, changes_max=5)) is not None:
        cuts.append((found.following.closed_lsn, found.count))
        state = found.following

    assert cuts == [(lsn(1), 4), (lsn(2), 4), (lsn(3), 13)]


def test_the_bound_is_of_bytes_as_well():
    records = [record(n, n, n + 1, (TOPIC, n, n + 1), size=400) for n in range(3)]
    found = plan_batch(SinkState(), Backlog.of(SinkState(), records), NAMES, Bound(10**6, 1_000))
    assert found is not None
    assert (found.count, found.topics[0].bytes) == (2, 800)


def test_a_heartbeat_moves_nothing():
    state = planned(SinkState(), [record(0, 0, 5, (TOPIC, 0, 3))]).following
    found = planned(state, [record(2, 5, 5)])

    assert not found.moves
    assert found.following.batch == 3
    assert plan(found.following, [record(2, 5, 5)]) is None


def test_an_idle_publisher_that_knows_a_newer_lsn_moves_the_cut():
    state = planned(SinkState(), [record(0, 0, 5, (TOPIC, 0, 3))]).following
    found = planned(state, [record(2, 5, 7)])

    assert found.moves
    assert found.topics == ()
    assert found.following.closed_lsn == lsn(7)


def test_a_table_in_its_snapshot_is_held_and_joins_whole():
    chunk = record(0, 0, 5, (TOPIC, 0, 3), (OTHER, 0, 2), snapshotting=[OTHER])
    more = record(2, 5, 6, (OTHER, 2, 4), snapshotting=[OTHER], schema_id=2)
    last = record(4, 6, 6, (OTHER, 5, 7))

    held = planned(SinkState(), [chunk])
    assert ranges(held) == {TOPIC: {0: (0, 3)}}
    assert dict(held.following.held[OTHER].partitions) == {0: (0, 2)}

    still = planned(held.following, [more])
    assert still.topics == ()
    joined = planned(still.following, [last])
    assert ranges(joined) == {OTHER: {0: (0, 7)}}
    assert joined.topics[0].schema_ids == {1, 2}
    assert joined.moves
    assert joined.following.held == {}

    at_once = planned(SinkState(), [chunk, more, last])
    assert ranges(at_once) == {TOPIC: {0: (0, 3)}, OTHER: {0: (0, 7)}}


def test_what_joins_after_a_snapshot_is_the_whole_table():
    chunk = record(0, 0, 5, (OTHER, 0, 2), snapshotting=[OTHER])
    last = record(4, 5, 6, (OTHER, 5, 7), (TOPIC, 0, 1))

    joined = planned(planned(SinkState(), [chunk]).following, [last])

    whole = {topic.topic: topic.whole_from for topic in joined.topics}
    assert whole == {OTHER: {0: 0}, TOPIC: None}


def test_what_was_read_before_a_table_is_named_is_not_held_with_it():
    before = record(0, 0, 5, (OTHER, 0, 2))
    named = record(2, 5, 5, snapshotting=[OTHER])
    chunk = record(3, 5, 6, (OTHER, 10, 12), snapshotting=[OTHER])
    last = record(4, 6, 7, (OTHER, 15, 17))

    first = planned(SinkState(), [before, named])
    assert ranges(first) == {OTHER: {0: (0, 2)}}
    assert first.topics[0].whole_from is None
    assert dict(first.following.held[OTHER].partitions) == {}

    at_once = planned(SinkState(), [before, named, chunk, last])
    assert ranges(at_once) == {OTHER: {0: (0, 17)}}
    assert at_once.topics[0].whole_from == {0: 10}
    assert at_once.count == 6


def test_a_snapshot_that_found_no_row_is_whole_too():
    named = record(0, 0, 5, snapshotting=[OTHER])

    held = planned(SinkState(), [named])
    assert held.topics == ()
    joined = planned(held.following, [record(1, 5, 6)])
    assert ranges(joined) == {OTHER: {}}
    assert joined.topics[0].is_whole


def test_of_two_snapshots_in_one_batch_the_second_is_the_whole():
    records = [
        record(0, 0, 1, (OTHER, 0, 2), snapshotting=[OTHER]),
        record(1, 1, 2, (OTHER, 2, 4)),
        record(2, 2, 2, snapshotting=[OTHER]),
        record(3, 2, 3, (OTHER, 6, 8)),
    ]

    both = planned(SinkState(), records)
    assert ranges(both) == {OTHER: {0: (0, 8)}}
    assert both.topics[0].whole_from == {0: 6}

    first = planned(SinkState(), records[:3])
    assert ranges(first) == {OTHER: {0: (0, 4)}}
    assert first.topics[0].whole_from == {0: 0}
    assert list(first.following.held) == [OTHER]


@pytest.mark.parametrize("is_one_batch", [True, False])
def test_a_table_that_begins_anew_while_it_is_named_is_whole_from_there(is_one_batch: bool):
    """The record that leaves it out is of the same Kafka transaction as the next one."""
    first = record(0, 0, 5, (OTHER, 0, 2), snapshotting=[OTHER])
    between = record(1, 5, 5, closed=False)
    anew = record(2, 5, 6, (OTHER, 4, 6), snapshotting=[OTHER])
    over = record(3, 6, 7)
    if is_one_batch:
        found = planned(SinkState(), [first, between, anew, over])
    else:
        state = planned(SinkState(), [first]).following
        middle = planned(state, [between, anew])
        assert set(middle.following.held) == {OTHER}
        found = planned(middle.following, [over])

    (topic,) = found.topics
    assert topic.whole_from == {0: 4}


def test_a_held_table_without_further_records_joins_too():
    state = planned(SinkState(), [record(0, 0, 5, (OTHER, 0, 2), snapshotting=[OTHER])]).following

    assert ranges(planned(state, [record(2, 5, 6)])) == {OTHER: {0: (0, 2)}}


def test_a_stopped_table_is_left_out_until_it_comes_whole():
    state = planned(SinkState(), [record(0, 0, 5, (TOPIC, 0, 1), (OTHER, 0, 1))]).following
    state = replace(state, stopped={OTHER: "its key changed"})

    left_out = planned(state, [record(1, 5, 6, (TOPIC, 1, 2), (OTHER, 1, 4))])
    assert ranges(left_out) == {TOPIC: {0: (1, 2)}}
    assert left_out.following.stopped == {OTHER: "its key changed"}

    chunk = record(2, 6, 7, (OTHER, 4, 6), snapshotting=[OTHER])
    named = planned(left_out.following, [chunk])
    assert named.topics == ()
    assert named.following.stopped == {OTHER: "its key changed"}
    whole = planned(named.following, [record(3, 7, 8, (OTHER, 6, 9)), record(4, 8, 9)])
    assert ranges(whole) == {OTHER: {0: (4, 9)}}
    assert whole.topics[0].is_only_whole
    assert whole.following.stopped == {}

    at_once = planned(
        state, [record(1, 5, 6, (OTHER, 1, 4)), chunk, record(3, 7, 8, (OTHER, 6, 9))]
    )
    assert ranges(at_once) == {OTHER: {0: (4, 9)}}
    assert at_once.topics[0].is_only_whole


def test_a_topic_that_begins_below_known_offsets_was_made_anew():
    state = planned(SinkState(), [record(0, 0, 5, (TOPIC, 0, 9), (OTHER, 0, 9))]).following

    anew = planned(state, [record(1, 5, 6, (TOPIC, 9, 10), (OTHER, 0, 3))])
    assert {topic.topic: topic.is_made_anew for topic in anew.topics} == {TOPIC: False, OTHER: True}

    chunk = record(1, 5, 6, (OTHER, 0, 3), snapshotting=[OTHER])
    whole = planned(state, [chunk, record(2, 6, 7)])
    assert [(topic.is_made_anew, topic.is_only_whole) for topic in whole.topics] == [(False, True)]
    assert whole.following.offsets[OTHER] == {0: 3}


def test_a_whole_table_in_a_topic_made_anew_is_all_that_is_read_of_it():
    before = record(0, 0, 5, (OTHER, 7, 9))
    chunk = record(1, 5, 6, (OTHER, 0, 3), snapshotting=[OTHER])

    at_once = planned(SinkState(), [before, chunk, record(2, 6, 7)])

    assert ranges(at_once) == {OTHER: {0: (0, 3)}}
    assert at_once.topics[0].is_only_whole
    assert at_once.topics[0].count == 3


@pytest.mark.parametrize("is_made_anew", [True, False])
def test_what_is_left_of_a_snapshot_that_lost_some_is_not_the_whole(is_made_anew: bool):
    """A later batch meets the rest of it, which is named until it is over."""
    lost = record(1, 1, 2, (OTHER, 0 if is_made_anew else 10, 20), snapshotting=[OTHER])
    if not is_made_anew:
        lost = replace(lost, lost={OTHER: Loss("retention took it")})
    first = [record(0, 0, 1, (OTHER, 0, 9), snapshotting=[OTHER]), lost]

    state = planned(SinkState(), first).following
    assert list(state.stopped) == [OTHER]
    rest = [
        record(2, 2, 3, (OTHER, 20, 30), snapshotting=[OTHER]),
        record(3, 3, 4, (OTHER, 30, 31)),
    ]
    found = planned(state, rest)
    assert found.topics == ()
    assert found.following.stopped == state.stopped
    assert found.following.held == {}

    again = record(4, 4, 5, (OTHER, 31, 33), snapshotting=[OTHER])
    anew = planned(found.following, [again, record(5, 5, 6)])
    assert ranges(anew) == {OTHER: {0: (31, 33)}}
    assert anew.topics[0].is_whole
    assert anew.following.stopped == {}


def test_a_snapshot_after_lost_changes_in_the_same_cut_is_applied():
    """The operator did what the message about the loss asks for, while the sink stood still."""
    loss = {OTHER: Loss("retention took it", {0: 100, 1: 7})}
    records = [
        record(0, 0, 1, (OTHER, 0, 100)),
        record(1, 1, 2, (OTHER, 100, 150), snapshotting=[OTHER]),
        record(2, 2, 3, (OTHER, 150, 200), snapshotting=[OTHER]),
        record(3, 3, 4),
    ]
    logged = [replace(of, batch=4, lost=loss) for of in records]

    found = planned(SinkState(), logged)
    assert ranges(found) == {OTHER: {0: (100, 200)}}
    assert found.topics[0].is_only_whole
    assert found.following.stopped == {}

    before = planned(SinkState(), logged[:1])
    assert (before.topics, before.following.stopped) == ((), {OTHER: "retention took it"})
    torn = [replace(of, lost={OTHER: Loss("gone", {0: 120})}) for of in logged]
    assert planned(SinkState(), torn).following.stopped == {OTHER: "gone"}


def test_a_snapshot_of_more_than_a_batch_takes_is_applied_in_parts():
    def chunk(offset: int, *, size: int = 4) -> ProgressRecord:
        first = 10 * offset
        return record(
            offset, offset, offset + 1, (OTHER, first, first + size), snapshotting=[OTHER]
        )

    small = planned(SinkState(), [chunk(1), chunk(2)], 8)
    assert small.topics == ()
    first = planned(small.following, [chunk(3)], 8)
    (part,) = first.topics
    assert (dict(part.partitions), part.count, part.is_part) == ({0: (10, 34)}, 12, True)
    assert not part.is_whole
    assert part.finishes is None
    assert first.following.offsets == {OTHER: {0: 34}}

    state = state_of(json.loads(json.dumps(state_json(first.following))))
    assert state == first.following
    assert state.held[OTHER].since_lsn == lsn(1)
    nothing = planned(state, [chunk(4), chunk(5)], 8)
    assert nothing.topics == ()
    second = planned(nothing.following, [chunk(6)], 8)
    assert ranges(second) == {OTHER: {0: (40, 64)}}

    last = planned(second.following, [chunk(7), record(8, 8, 9, (OTHER, 80, 82))], 8)
    (rest,) = last.topics
    assert (dict(rest.partitions), rest.count, rest.is_part) == ({0: (70, 82)}, 6, True)
    assert rest.finishes is not None
    assert (dict(rest.finishes.partitions), rest.finishes.count) == ({0: (10, 82)}, 30)
    assert rest.finishes.since_lsn == lsn(1)
    assert last.following.held == {}
    assert plan_of(json.loads(json.dumps(plan_json(last)))) == last


def test_the_last_part_may_have_no_change():
    chunk = record(0, 0, 1, (OTHER, 0, 9), snapshotting=[OTHER])
    first = planned(SinkState(), [chunk], 8)
    assert first.topics[0].is_part

    last = planned(first.following, [record(1, 1, 2)], 8)
    (rest,) = last.topics
    assert rest.partitions == {}
    assert rest.schema_ids == {1}
    assert rest.finishes is not None


def test_a_table_that_is_named_again_behind_its_parts_is_whole_by_the_second():
    chunk = record(0, 0, 1, (OTHER, 0, 9), snapshotting=[OTHER])
    first = planned(SinkState(), [chunk], 8)
    again = [
        record(1, 1, 1, (OTHER, 9, 10), closed=False, snapshotting=[OTHER]),
        record(2, 1, 1, closed=False),
        record(3, 1, 2, (OTHER, 10, 12), snapshotting=[OTHER]),
        record(4, 2, 3, (OTHER, 12, 13)),
    ]
    (whole,) = planned(first.following, again, 8).topics
    assert (whole.whole_from, whole.is_part, whole.finishes) == ({0: 10}, False, None)
    assert dict(whole.partitions) == {0: (9, 13)}


@given(
    st.lists(st.tuples(st.booleans(), st.integers(0, 6)), min_size=1, max_size=30),
    st.integers(1, 12),
    st.data(),
)
def test_parts_take_every_offset_once(
    steps: list[tuple[bool, int]], most: int, data: st.DataObject
):
    """However a history is cut into batches: what waits is bounded, and nothing comes twice."""
    state, end, taken = SinkState(), 0, 0
    waiting: list[ProgressRecord] = []
    for number, (is_named, count) in enumerate(steps):
        ranges_ = [(OTHER, end, end + count)] if count else []
        names = [OTHER] if is_named else []
        waiting.append(record(number, number, number + 1, *ranges_, snapshotting=names))
        end += count
        if not data.draw(st.booleans()):
            continue
        while (found := plan(state, waiting, most)) is not None:
            state = state_of(json.loads(json.dumps(state_json(found.following))))
            for topic in found.topics:
                first, taken_to = topic.partitions.get(0, (taken, taken))
                assert (first, topic.count) == (taken, taken_to - taken)
                taken = taken_to
                if topic.finishes is not None:
                    assert topic.finishes.count <= taken
            assert all(held.waiting.count <= most for held in state.held.values())
        waiting = []
    kept = sum(held.waiting.count for held in state.held.values())
    assert taken + kept + sum(found.count for found in waiting) == end


def test_changes_before_a_snapshot_are_not_the_whole():
    before = record(0, 0, 5, (OTHER, 0, 2))
    chunk = record(1, 5, 6, (OTHER, 2, 4), snapshotting=[OTHER])

    both = planned(SinkState(), [before, chunk, record(2, 6, 7)])

    assert both.topics[0].is_whole
    assert not both.topics[0].is_only_whole


def test_our_own_topics_are_no_data():
    found = planned(SinkState(), [record(0, 0, 5, ("p.shop.ddl", 0, 1), (TOPIC, 0, 1))])

    assert ranges(found) == {TOPIC: {0: (0, 1)}}


def test_no_cut_before_every_shard_was_heard():
    assert plan(SinkState(), [record(0, 0, 5, (TOPIC, 0, 3))], shards=2) is None


def test_the_slowest_shard_decides_and_the_fast_one_is_read_twice():
    fast = record(0, 0, 10, (TOPIC, 0, 5))
    slow = record(1, 0, 4, (OTHER, 0, 2), shard=1)
    slow_later = record(3, 4, 12, (OTHER, 3, 6), shard=1)

    first = planned(SinkState(), [fast, slow], shards=2)
    assert first.following.closed_lsn == lsn(4)
    by_topic = {topic.topic: topic for topic in first.topics}
    assert by_topic[TOPIC].up_to_lsn == lsn(4)
    assert by_topic[OTHER].up_to_lsn is None
    assert TOPIC not in first.following.offsets

    second = planned(first.following, [fast, slow, slow_later], shards=2)
    assert second.following.closed_lsn == lsn(10)
    by_topic = {topic.topic: topic for topic in second.topics}
    assert (by_topic[TOPIC].after_lsn, by_topic[TOPIC].up_to_lsn) == (lsn(4), None)
    assert (by_topic[OTHER].after_lsn, by_topic[OTHER].up_to_lsn) == (None, lsn(10))
    assert second.following.batch > first.following.batch


def test_a_gap_is_an_error():
    state = planned(SinkState(), [record(0, 0, 5)]).following

    with pytest.raises(ProgressGap, match="from LSN 00000001:00000005:0001 to"):
        plan(state, [record(1, 6, 7)])


def test_an_lsn_that_goes_back_is_an_error():
    with pytest.raises(LsnWentBackwards, match="restored"):
        plan(SinkState(), [record(0, 0, 5), record(1, 3, 4)])


def test_another_database_is_an_error():
    state = planned(SinkState(), [record(0, 0, 5)]).following

    with pytest.raises(ForeignRecord, match="a prefix and a lake of its own"):
        plan(state, [record(1, 5, 6, database="other")])


@st.composite
def histories(draw: st.DrawFn) -> list[ProgressRecord]:
    """Progress records of up to three shards, some of them inside unfinished transactions."""
    shards = draw(st.integers(1, 3))
    through = dict.fromkeys(range(shards), 0)
    end = dict.fromkeys(range(shards), 0)
    records = []
    for offset in range(draw(st.integers(1, 25))):
        shard = draw(st.integers(0, shards - 1))
        closed = draw(st.booleans())
        step = draw(st.integers(0, 3)) if closed else 0
        count = draw(st.integers(0, 4))
        ranges_ = [(f"p.shop.dbo.t{shard}", end[shard], end[shard] + count)] if count else []
        end[shard] += count
        after = through[shard]
        through[shard] += step
        records.append(record(offset, after, through[shard], *ranges_, closed=closed, shard=shard))
    return records


@given(histories(), st.integers(1, 10), st.randoms(use_true_random=False))
def test_cuts_cover_every_offset_in_order_however_records_arrive(
    records: list[ProgressRecord], changes_max: int, chance: random.Random
):
    """Whatever the bound and however often planning starts anew: no offset is left out, every cut
    is a closed LSN, and batch ids grow."""
    shards = len({record.progress.shard for record in records})
    state = SinkState()
    seen: list[ProgressRecord] = []
    applied: dict[str, int] = {}
    batches = []
    for one in records:
        seen.append(one)
        shuffled = chance.sample(seen, len(seen))
        while (found := plan(state, shuffled, changes_max, shards)) is not None:
            for topic in found.topics:
                ((first, end),) = topic.partitions.values()
                assert first <= applied.get(topic.topic, 0)
                whole = found.following.offsets.get(topic.topic, {}).get(0, 0)
                # What is beyond belongs to a shard that is ahead: it is read again later.
                assert whole == end or (whole < end and topic.up_to_lsn is not None)
                applied[topic.topic] = whole
                assert sum(of.count for of in topic.ledger.values()) == topic.count
            assert plan_of(json.loads(json.dumps(plan_json(found)))) == found
            batches.append(found.following.batch)
            state = replace(found.following)
    assert all(a < b for a, b in itertools.pairwise(batches))
    for shard, position in state.shards.items():
        passed = [
            r for r in records if r.progress.shard == shard and r.offset < position.next_offset
        ]
        ends = [p.next_offset for r in passed for p in r.progress.partitions]
        assert applied.get(f"p.shop.dbo.t{shard}", 0) == max(ends, default=0)


def test_a_lake_that_begins_late_takes_no_table_for_whole():
    """One that is quiet, one that changes, and one whose snapshot had begun before."""
    newest = record(7, 4, 5, (TOPIC, 9, 12), snapshotting=[OTHER])
    state = begin_at(SinkState(), [newest], [TOPIC, OTHER, "p.shop.dbo.quiet"], "too late")
    assert (state.batch, state.closed_lsn, state.versions) == (8, lsn(5), {})
    assert state.stopped == {TOPIC: "too late", "p.shop.dbo.quiet": "too late"}
    assert set(state.held) == {OTHER}

    going_on = [
        record(8, 5, 6, (TOPIC, 12, 14), (OTHER, 3, 5), snapshotting=[OTHER]),
        record(9, 6, 7, (OTHER, 5, 6)),
    ]
    through = planned(state_of(state_json(state)), going_on)
    assert through.topics == ()
    assert set(through.following.stopped) == {TOPIC, OTHER, "p.shop.dbo.quiet"}

    again = [
        record(10, 7, 7, snapshotting=[OTHER]),
        record(11, 7, 8, (OTHER, 6, 9), snapshotting=[OTHER]),
        record(12, 8, 9, (OTHER, 9, 10)),
    ]
    whole = planned(through.following, again)
    assert [(of.topic, dict(of.partitions), of.is_whole) for of in whole.topics] == [
        (OTHER, {0: (6, 10)}, True)
    ]
    assert OTHER not in whole.following.stopped


def test_a_lake_does_not_go_on_with_an_older_source():
    state = planned(SinkState(), [record(0, 0, 5, (TOPIC, 0, 3))]).following
    with pytest.raises(LsnWentBackwards):
        begin_at(state, [record(7, 3, 4)], [TOPIC], "too late")


def test_changes_beside_a_snapshot_in_a_shard_that_is_ahead_are_all_read():
    """A cut below the record that names the table leaves it out: so nothing of it was applied."""
    slow = record(0, 0, 4, (OTHER, 0, 2), shard=1, partition=1)
    named = record(0, 0, 10, (TOPIC, 0, 5), snapshotting=[TOPIC])
    first = planned(SinkState(), [named, slow], shards=2)
    assert TOPIC not in ranges(first)

    ended = record(1, 10, 12, (TOPIC, 5, 6))
    later = record(1, 4, 12, (OTHER, 2, 3), shard=1, partition=1)
    second = planned(first.following, [named, ended, slow, later], shards=2)
    (found,) = (topic for topic in second.topics if topic.topic == TOPIC)
    assert (found.is_whole, dict(found.partitions)) == (True, {0: (0, 6)})
    assert found.after_lsn is None
