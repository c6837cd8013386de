"""Tables that the lake cannot follow are left out of cuts until they come whole."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tailrace_sink.errors import LsnWentBackwards
from tailrace_sink.intake.expired_progress import begin_at
from tailrace_sink.plan.progress_record import Loss
from tailrace_sink.plan.sink_state import SinkState
from tailrace_sink.plan.state_json import state_json, state_of
from tests.unit.sink.plan.progress_records import (
    OTHER,
    TOPIC,
    lsn,
    planned,
    ranges,
    record,
)


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
    assert {topic.topic: topic.is_recreated for topic in anew.topics} == {TOPIC: False, OTHER: True}

    chunk = record(1, 5, 6, (OTHER, 0, 3), snapshotting=[OTHER])
    whole = planned(state, [chunk, record(2, 6, 7)])
    assert [(topic.is_recreated, topic.is_only_whole) for topic in whole.topics] == [(False, True)]
    assert whole.following.offsets[OTHER] == {0: 3}


def test_a_whole_table_in_a_topic_made_anew_is_all_that_is_read_of_it():
    before = record(0, 0, 5, (OTHER, 7, 9))
    chunk = record(1, 5, 6, (OTHER, 0, 3), snapshotting=[OTHER])

    at_once = planned(SinkState(), [before, chunk, record(2, 6, 7)])

    assert ranges(at_once) == {OTHER: {0: (0, 3)}}
    assert at_once.topics[0].is_only_whole
    assert at_once.topics[0].count == 3


@pytest.mark.parametrize("is_recreated", [True, False])
def test_what_is_left_of_a_snapshot_that_lost_some_is_not_the_whole(is_recreated: bool):
    """A later batch meets the rest of it, which is named until it is over."""
    lost = record(1, 1, 2, (OTHER, 0 if is_recreated else 10, 20), snapshotting=[OTHER])
    if not is_recreated:
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


def test_a_lake_that_begins_late_takes_no_table_for_whole():
    """One that is quiet, one that changes, and one whose snapshot had begun before."""
    newest = record(7, 4, 5, (TOPIC, 9, 12), snapshotting=[OTHER])
    state = begin_at(SinkState(), newest, [TOPIC, OTHER, "p.shop.dbo.quiet"], "too late")
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
        begin_at(state, record(7, 3, 4), [TOPIC], "too late")
