"""A snapshot of more rows than a batch takes is planned in parts."""

from __future__ import annotations

import json
from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from tailrace_sink.log.intent import plan_json, plan_of
from tailrace_sink.plan.progress_record import ProgressRecord
from tailrace_sink.plan.sink_state import SinkState
from tailrace_sink.plan.state_json import state_json, state_of
from tests.unit.sink.plan.progress_records import (
    OTHER,
    lsn,
    plan,
    planned,
    ranges,
    record,
)


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


def test_a_bulk_cut_is_read_from_kafka_and_a_copied_one_from_the_log():
    bulk = replace(record(0, 0, 1, (OTHER, 0, 9), snapshotting=[OTHER]), batch=1, in_kafka=True)
    copied = replace(record(1, 1, 2, (OTHER, 9, 12)), batch=2)
    (found,) = planned(SinkState(), [bulk, copied], 100).topics
    assert dict(found.partitions) == {0: (0, 12)}
    assert found.from_kafka == {0: (0, 9)}

    held = planned(SinkState(), [bulk], 100).following
    state = state_of(json.loads(json.dumps(state_json(held))))
    (again,) = planned(state, [copied], 100).topics
    assert again.from_kafka == {0: (0, 9)}
