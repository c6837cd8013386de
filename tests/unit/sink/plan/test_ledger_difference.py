"""What the sink notes and compares, without Spark and Kafka."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from tailrace_sink.log.intent import plan_json, plan_of
from tailrace_sink.plan.ledger_difference import difference
from tailrace_sink.plan.sink_state import BatchPlan, Position, SinkState
from tailrace_sink.plan.state_json import held_of, range_json, range_of
from tailrace_sink.plan.topic_ranges import Counted, TopicRange

RANGE = TopicRange(
    topic="p.shop.dbo.t",
    partitions={0: (3, 9), 1: (0, 4)},
    count=7,
    schema_ids=frozenset({5, 6}),
    whole_from={0: 5, 1: 0},
    is_recreated=True,
    ledger={0: Counted(5, -17), 1: Counted(2, 2**62)},
)


def test_a_plan_is_read_as_it_was_written():
    following = SinkState(
        batch=12,
        closed_lsn="00000001:00000009:0001",
        closed_commit_ms=1_700_000_000_123,
        position=Position(0, 12, "00000001:00000009:0001"),
        held={"p.shop.dbo.u": replace(RANGE, topic="p.shop.dbo.u", whole_from=None)},
        stopped={"p.shop.dbo.v": "its key 'changed'"},
        offsets={"p.shop.dbo.t": {0: 9, 1: 4}},
        versions={"shop/dbo/t": 3},
        server="s",
        database="shop",
    )
    plan = BatchPlan((RANGE, replace(RANGE, whole_from={})), following, 42, moves=True)

    assert plan_of(json.loads(json.dumps(plan_json(plan)))) == plan


def test_a_waiting_range_of_an_earlier_release_is_read():
    fields = ("shard", "partitions", "count", "schema_ids")
    old = {name: json.loads(json.dumps(range_json(RANGE)))[name] for name in fields}

    found = held_of({RANGE.topic: old})[RANGE.topic]

    assert (found.topic, found.partitions, found.count) == (RANGE.topic, RANGE.partitions, 7)
    assert found.ledger == {}
    assert range_of(range_json(found)) == found
    assert difference("t", found, {0: Counted(3, 1), 1: Counted(4, 2)}) is None
    error = difference("t", found, {0: Counted(3, 1)})
    assert error is not None
    assert "topic p.shop.dbo.t holds 3 changes where the publisher counted 7" in str(error)


@pytest.mark.parametrize(
    ("found", "partition", "words"),
    [
        ({0: Counted(5, -17)}, 1, "holds 0 changes where the publisher counted 2"),
        ({0: Counted(5, -17), 1: Counted(3, 2**62)}, 1, "holds 3 changes where"),
        ({0: Counted(5, -18), 1: Counted(2, 2**62)}, 0, "5 changes, but others than"),
        ({**RANGE.ledger, 2: Counted(1, 0)}, 2, "holds 1 changes where the publisher counted 0"),
        ({0: RANGE.ledger[1], 1: RANGE.ledger[0]}, 0, "holds 2 changes where"),
    ],
)
def test_each_partition_must_hold_what_was_counted(
    found: dict[int, Counted], partition: int, words: str
):
    assert difference("shop.dbo.t", RANGE, RANGE.ledger) is None

    error = difference("shop.dbo.t", RANGE, found)

    assert error is not None
    assert error.partition == partition
    assert words in str(error)
    assert f"table shop.dbo.t: topic p.shop.dbo.t partition {partition}" in str(error)


def test_hashes_add_up_as_avro_holds_them():
    assert Counted(1, 2**63 - 1).plus(Counted(2, 1)) == Counted(3, -(2**63))
