"""What earlier releases wrote by shard: read if there was one, refused if there were more."""

from __future__ import annotations

import io
import json
from dataclasses import replace
from typing import Any, cast

import fastavro
import pytest

from tailrace_schemas.events.framing import frame_header
from tailrace_schemas.records.progress import PROGRESS_SCHEMA
from tailrace_sink.errors import DividedIntoShards
from tailrace_sink.kafka.offset_bounds import Bounds, TopicCheck
from tailrace_sink.kafka.progress_topic import ProgressTopic
from tailrace_sink.options.config import SinkConfig
from tailrace_sink.plan.log_state import LogState
from tailrace_sink.plan.progress_record import decode_progress
from tailrace_sink.plan.sink_state import Position, SinkState
from tailrace_sink.plan.state_json import position_json, position_of, state_json, state_of
from tailrace_sink.plan.topic_ranges import TopicRange
from tests.least_options import LEAST_OF_SINK
from tests.unit.sink.plan.progress_records import record

LSN = "00000001:00000009:0001"
POSITION = '{"0": {"partition": 0, "next_offset": 12, "through_lsn": "00000001:00000009:0001"}}'
TWO = f'{POSITION[:-1]}, "1": {{"partition": 1, "next_offset": 13, "through_lsn": "{LSN}"}}}}'
STATE = (
    '{"batch": 12, "through_lsn": "00000001:00000009:0001", "through_commit_ms": 1700000000123,'
    f' "shards": {POSITION}, "held": {{"p.shop.dbo.u": {{"topic": "p.shop.dbo.u", "shard": 0,'
    ' "partitions": {"0": [3, 9]}, "count": 6, "schema_ids": [5], "after_lsn": null,'
    ' "up_to_lsn": null, "whole_from": null, "is_made_anew": false, "torn": "", "ledger": {},'
    ' "from_batch": 4, "to_batch": 0, "bytes": 0, "operations": {"reads": 0, "creates": 0,'
    ' "updates": 0, "deletes": 0}, "since_lsn": "00000001:00000009:0001", "is_part": false,'
    ' "into_empty": false, "in_kafka": {}}}, "stopped": {}, "offsets": {"p.shop.dbo.t": {"0": 9}},'
    ' "versions": {}, "homes": {}, "server": "s", "database": "shop"}'
)
LOG_STATE = (
    f'{{"state": {STATE}, "epoch": 3, "owner": "me", "named": {{"0": ["p.shop.dbo.u"]}},'
    ' "lost": {}, "lost_below": {}, "published_ms": 0, "is_start": false, "prefix": "p",'
    ' "deletes": "", "bad_records": "", "in_kafka": {}, "into": {}}'
)
EXPECTED = SinkState(
    batch=12,
    closed_lsn=LSN,
    closed_commit_ms=1_700_000_000_123,
    position=Position(0, 12, LSN),
    held={
        "p.shop.dbo.u": TopicRange(
            "p.shop.dbo.u", {0: (3, 9)}, 6, frozenset({5}), from_batch=4, since_lsn=LSN
        )
    },
    offsets={"p.shop.dbo.t": {0: 9}},
    server="s",
    database="shop",
)


def test_the_position_of_a_commit_row_is_read_and_written_as_before():
    assert position_of(json.loads(POSITION)) == EXPECTED.position
    assert json.dumps(position_json(EXPECTED.position)) == POSITION
    assert position_of({}) is None
    assert position_json(None) == {}


def test_a_state_is_read_as_before():
    assert state_of(json.loads(STATE)) == EXPECTED
    assert state_of(json.loads(json.dumps(state_json(EXPECTED)))) == EXPECTED


def test_a_row_of_the_log_is_read_as_before():
    found = LogState.of_json(LOG_STATE)
    assert (found.state, found.named) == (EXPECTED, {"p.shop.dbo.u"})
    assert json.loads(found.to_json())["named"] == {"0": ["p.shop.dbo.u"]}


@pytest.mark.parametrize(
    "read",
    [
        lambda: position_of(json.loads(TWO)),
        lambda: state_of(json.loads(STATE.replace(POSITION, TWO))),
        lambda: LogState.of_json(LOG_STATE.replace(POSITION, TWO)),
        lambda: LogState.of_json(LOG_STATE.replace('"named": {', '"named": {"1": [], ')),
    ],
)
def test_a_lake_of_several_shards_is_refused_with_the_way_out(read):
    with pytest.raises(
        DividedIntoShards, match=r"the state of the lake .*Fix: .*another publisher.prefix"
    ):
        read()


@pytest.mark.parametrize(("shard", "shards"), [(1, 2), (0, 2)])
def test_a_record_of_several_shards_is_refused_with_the_way_out(shard: int, shards: int):
    """The first shard's, too: the records of the others would be missing."""
    fields = replace(record(0, 0, 9).progress, shard=shard, shards=shards).to_record()
    body = io.BytesIO()
    fastavro.schemaless_writer(body, fastavro.parse_schema(PROGRESS_SCHEMA), fields)
    value = frame_header(1) + body.getvalue()
    with pytest.raises(
        DividedIntoShards, match=rf"closes LSN {LSN} .*Fix: .*another publisher.prefix"
    ):
        decode_progress(value, lambda _: PROGRESS_SCHEMA)


def test_a_topic_of_several_shards_is_refused_with_the_way_out(monkeypatch: pytest.MonkeyPatch):
    """Before a record is read: the first partition may be empty."""
    bounds = dict.fromkeys((0, 1), Bounds(0, 0, 0))
    monkeypatch.setattr(TopicCheck, "bounds", lambda *_: bounds)
    config, nothing = SinkConfig.model_validate(LEAST_OF_SINK), cast("Any", None)
    with pytest.raises(DividedIntoShards, match=r"progress, which has 2 .*Fix: stop its"):
        ProgressTopic(nothing, config, nothing).after(None)
