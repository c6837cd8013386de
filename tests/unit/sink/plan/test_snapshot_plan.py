"""A table joins the cuts when its snapshot is over, as a whole."""

from __future__ import annotations

import pytest

from tailrace_sink.plan.sink_state import SinkState
from tests.unit.sink.plan.progress_records import (
    OTHER,
    TOPIC,
    planned,
    ranges,
    record,
)


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


def test_changes_before_a_snapshot_are_not_the_whole():
    before = record(0, 0, 5, (OTHER, 0, 2))
    chunk = record(1, 5, 6, (OTHER, 2, 4), snapshotting=[OTHER])

    both = planned(SinkState(), [before, chunk, record(2, 6, 7)])

    assert both.topics[0].is_whole
    assert not both.topics[0].is_only_whole
