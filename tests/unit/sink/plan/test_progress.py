"""Planning cuts from progress records, without Kafka or Spark."""

from __future__ import annotations

import itertools
import json
import random
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tailrace_schemas.records.progress import PatchedColumns
from tailrace_sink.errors import ForeignRecord, LsnWentBackwards, ProgressGap
from tailrace_sink.log.intent import plan_json, plan_of
from tailrace_sink.options.batch_bound import Bound
from tailrace_sink.plan.batch_plan import plan_batch
from tailrace_sink.plan.progress_groups import Backlog
from tailrace_sink.plan.progress_record import ProgressRecord
from tailrace_sink.plan.sink_state import SinkState
from tests.unit.sink.plan.progress_records import (
    NAMES,
    OTHER,
    TOPIC,
    lsn,
    plan,
    planned,
    ranges,
    record,
)


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


def test_the_end_of_a_patch_is_said_with_the_cut_that_has_it():
    first, second = record(0, 0, 5, (TOPIC, 0, 3)), record(2, 5, 8, (TOPIC, 4, 6))
    second.progress.patched.append(PatchedColumns(TOPIC, ["a", "b"]))

    before = planned(SinkState(), [first, second], changes_max=3)
    after = planned(before.following, [first, second], changes_max=3)
    assert before.patched == ()
    assert after.patched == ((TOPIC, "a", lsn(8)), (TOPIC, "b", lsn(8)))
    assert plan_of(json.loads(json.dumps(plan_json(after)))) == after


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


def test_our_own_topics_are_no_data():
    found = planned(SinkState(), [record(0, 0, 5, ("p.shop.ddl", 0, 1), (TOPIC, 0, 1))])

    assert ranges(found) == {TOPIC: {0: (0, 1)}}


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
    """Progress records of three tables, some of them inside unfinished transactions."""
    through = 0
    end = [0] * 3
    records = []
    for offset in range(draw(st.integers(1, 25))):
        table = draw(st.integers(0, 2))
        closed = draw(st.booleans())
        step = draw(st.integers(0, 3)) if closed else 0
        count = draw(st.integers(0, 4))
        ranges_ = [(f"p.shop.dbo.t{table}", end[table], end[table] + count)] if count else []
        end[table] += count
        records.append(record(offset, through, through + step, *ranges_, closed=closed))
        through += step
    return records


@given(histories(), st.integers(1, 10), st.randoms(use_true_random=False))
def test_cuts_cover_every_offset_in_order_however_records_arrive(
    records: list[ProgressRecord], changes_max: int, chance: random.Random
):
    """Whatever the bound and however often planning starts anew: no offset is left out, every cut
    is a closed LSN, and batch ids grow."""
    state = SinkState()
    seen: list[ProgressRecord] = []
    applied: dict[str, int] = {}
    batches = []
    for one in records:
        seen.append(one)
        shuffled = chance.sample(seen, len(seen))
        while (found := plan(state, shuffled, changes_max)) is not None:
            for topic in found.topics:
                ((first, end),) = topic.partitions.values()
                assert first == applied.get(topic.topic, 0)
                assert found.following.offsets[topic.topic] == {0: end}
                applied[topic.topic] = end
                assert sum(of.count for of in topic.ledger.values()) == topic.count
            assert plan_of(json.loads(json.dumps(plan_json(found)))) == found
            batches.append(found.following.batch)
            state = replace(found.following)
    assert all(a < b for a, b in itertools.pairwise(batches))
    passed = [r for r in records if r.offset < state.batch]
    ends: dict[str, int] = {}
    for part in (part for r in passed for part in r.progress.partitions):
        ends[part.topic] = part.next_offset
    assert applied == ends
