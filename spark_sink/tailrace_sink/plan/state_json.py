"""Conversion of the sink's state to JSON values and back."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from tailrace_schemas.records.progress import OperationCounts
from tailrace_sink.errors import DividedIntoShards
from tailrace_sink.plan.sink_state import Position, SinkState
from tailrace_sink.plan.topic_ranges import Counted, TopicRange

Json = dict[str, Any]


def range_json(found: TopicRange) -> Json:
    """Convert a topic's range."""
    whole = found.whole_from
    further = {"rest": found.rest, "finishes": found.finishes}
    return {
        "topic": found.topic,
        "shard": 0,  # earlier releases read the lake, too
        "partitions": {str(p): list(offsets) for p, offsets in found.partitions.items()},
        "count": found.count,
        "schema_ids": sorted(found.schema_ids),
        "whole_from": None if whole is None else {str(p): first for p, first in whole.items()},
        "is_made_anew": found.is_recreated,  # the key of earlier states, which must stay readable
        "torn": found.torn,
        "ledger": {str(p): [of.count, of.position_hash] for p, of in found.ledger.items()},
        "from_batch": found.from_batch,
        "to_batch": found.to_batch,
        "bytes": found.bytes,
        "operations": asdict(found.operations),
        "since_lsn": found.since_lsn,
        "is_part": found.is_part,
        "into_empty": found.into_empty,
        "in_kafka": {str(p): list(offsets) for p, offsets in found.in_kafka.items()},
        **{name: range_json(of) for name, of in further.items() if of is not None},
    }


def range_of(found: Json) -> TopicRange:
    """Read the range of :func:`range_json`; earlier releases wrote fewer fields."""
    whole = found.get("whole_from")
    further = {name: range_of(found[name]) for name in ("rest", "finishes") if name in found}
    return TopicRange(
        topic=found["topic"],
        partitions={int(p): (first, end) for p, (first, end) in found["partitions"].items()},
        count=found["count"],
        schema_ids=frozenset(found["schema_ids"]),
        whole_from=None if whole is None else {int(p): first for p, first in whole.items()},
        is_recreated=found.get("is_made_anew", False),
        torn=found.get("torn", ""),
        ledger={int(p): Counted(*of) for p, of in found.get("ledger", {}).items()},
        from_batch=found.get("from_batch", 0),
        to_batch=found.get("to_batch", 0),
        bytes=found.get("bytes", 0),
        operations=OperationCounts(**found.get("operations", {})),
        since_lsn=found.get("since_lsn", ""),
        is_part=found.get("is_part", False),
        into_empty=found.get("into_empty", False),
        in_kafka={int(p): (first, end) for p, (first, end) in found.get("in_kafka", {}).items()},
        **further,
    )


def position_json(position: Position | None) -> Json:
    """Convert a position, in the form of the first release: by shard, which is 0."""
    if position is None:
        return {}
    return by_shard(
        {
            "partition": position.partition,
            "next_offset": position.next_offset,
            "through_lsn": position.closed_lsn,
        }
    )


def position_of(found: Json) -> Position | None:
    """Read the position of :func:`position_json`.

    Raises:
        DividedIntoShards: an earlier release wrote positions of several.
    """
    of = of_one_shard(found)
    return None if of is None else Position(of["partition"], of["next_offset"], of["through_lsn"])


def by_shard(value: Any) -> Json:
    """Convert a value to the form in which earlier releases had one of each shard."""
    return {"0": value}


def of_one_shard(found: Json) -> Any:
    """Read the value of :func:`by_shard`; None if there is none.

    Raises:
        DividedIntoShards: an earlier release wrote values of several.
    """
    if found.keys() - {"0"}:
        raise DividedIntoShards("the state of the lake")
    return found.get("0")


def held_json(held: Mapping[str, TopicRange]) -> Json:
    """Convert held ranges by topic."""
    return {topic: range_json(found) for topic, found in held.items()}


def held_of(found: Json) -> dict[str, TopicRange]:
    """Read the ranges of :func:`held_json`."""
    return {topic: range_of({"topic": topic, **waiting}) for topic, waiting in found.items()}


def offsets_of(found: Json) -> dict[str, dict[int, int]]:
    """Read offsets by topic and partition, whose keys JSON has as texts."""
    return {t: {int(p): offset for p, offset in of.items()} for t, of in found.items()}


def state_json(state: SinkState) -> Json:
    """Convert a whole state."""
    return {
        "batch": state.batch,
        "through_lsn": state.closed_lsn,
        "through_commit_ms": state.closed_commit_ms,
        "shards": position_json(state.position),
        "held": held_json(state.held),
        "stopped": dict(state.stopped),
        "offsets": {topic: dict(found) for topic, found in state.offsets.items()},
        "versions": dict(state.versions),
        "homes": dict(state.homes),
        "server": state.server,
        "database": state.database,
    }


def state_of(found: Json) -> SinkState:
    """Read the state of :func:`state_json`.

    Raises:
        DividedIntoShards: it has positions of several shards.
    """
    fields = dict(found)
    closed_lsn, closed_ms = fields.pop("through_lsn"), fields.pop("through_commit_ms")
    position = position_of(fields.pop("shards"))
    return SinkState(
        **{
            **fields,
            "position": position,
            "closed_lsn": closed_lsn,
            "closed_commit_ms": closed_ms,
            "held": held_of(found["held"]),
            "offsets": offsets_of(found["offsets"]),
        }
    )


def state_of_row(row: Mapping[str, Any]) -> SinkState:
    """Read the state from a row of the commit table.

    Raises:
        DividedIntoShards: it has positions of several shards.
    """
    commit_time = row["through_commit_time"]
    return SinkState(
        batch=row["batch"],
        closed_lsn=row["through_lsn"],
        closed_commit_ms=None if commit_time is None else round(commit_time.timestamp() * 1000),
        position=position_of(json.loads(row["progress"])),
        held=held_of(json.loads(row["held"])),
        stopped=json.loads(row["stopped"] or "{}"),
        offsets=offsets_of(json.loads(row["offsets"])),
        versions=dict(row["tables"]),
        homes=json.loads(row.get("homes") or "{}"),
        server=row["server"],
        database=row["database"],
    )
