"""The state row of a cut in the log, and the mark of its append."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from tailrace_sink.plan.cut_plan import LogRange
from tailrace_sink.plan.progress_record import Loss, ProgressRecord
from tailrace_sink.plan.sink_state import SinkState
from tailrace_sink.plan.state_json import by_shard, of_one_shard, state_json, state_of

_EPOCH_SHIFT: Final = 40


@dataclass(frozen=True, slots=True, order=True)
class Mark:
    """The last writer of the log, and its last cut.

    Attributes:
        epoch: number of the sink's start; each start uses the next one.
        batch: batch id of the last cut.
    """

    epoch: int
    batch: int

    @property
    def version(self) -> int:
        """Convert to Delta's transaction version."""
        return (self.epoch << _EPOCH_SHIFT) | self.batch

    @classmethod
    def of_version(cls, version: int) -> Mark:
        """Convert from Delta's transaction version."""
        return cls(version >> _EPOCH_SHIFT, version & ((1 << _EPOCH_SHIFT) - 1))


@dataclass(frozen=True, slots=True)
class LogState:
    """The state row of a cut.

    Attributes:
        state: positions and LSN, without table versions.
        owner: random name of the sink, as two may start with the same epoch.
        named: topics of unfinished snapshots.
        lost: topics of which this cut lacks records.
        published_ms: when the newest record was published, milliseconds UTC.
        is_start: whether a start wrote the row, for the batch that it found.
        in_kafka: what the log lacks of a bulk cut, by topic: its batch reads that from Kafka.
        into: the option ``sink.into``, for readers.
    """

    state: SinkState
    epoch: int
    owner: str
    named: frozenset[str] = frozenset()
    lost: Mapping[str, Loss] = field(default_factory=dict)
    published_ms: int = 0
    is_start: bool = False
    prefix: str = ""
    deletes: str = ""
    bad_records: str = ""
    in_kafka: Mapping[str, LogRange] = field(default_factory=dict)
    into: Mapping[str, str] = field(default_factory=dict)

    @property
    def mark(self) -> Mark:
        """Mark of the cut's append."""
        return Mark(self.epoch, self.state.batch)

    def to_json(self) -> str:
        """Convert to the text in the row."""
        return json.dumps(
            {
                "state": state_json(self.state),
                "epoch": self.epoch,
                "owner": self.owner,
                "named": by_shard(sorted(self.named)),
                "lost": {topic: loss.reason for topic, loss in self.lost.items()},
                "lost_below": {t: loss.below for t, loss in self.lost.items() if loss.below},
                "published_ms": self.published_ms,
                "is_start": self.is_start,
                "prefix": self.prefix,
                "deletes": self.deletes,
                "bad_records": self.bad_records,
                "in_kafka": {topic: found.to_json() for topic, found in self.in_kafka.items()},
                "into": dict(self.into),
            }
        )

    @classmethod
    def of_json(cls, text: str) -> LogState:
        """Read the text in the row.

        Raises:
            DividedIntoShards: an earlier release wrote it, of several shards.
        """
        found = json.loads(text)
        below = {
            topic: {int(partition): offset for partition, offset in of.items()}
            for topic, of in found.get("lost_below", {}).items()
        }
        return cls(
            state=state_of(found["state"]),
            epoch=found["epoch"],
            owner=found["owner"],
            named=frozenset(of_one_shard(found["named"]) or ()),
            lost={t: Loss(reason, below.get(t, {})) for t, reason in found["lost"].items()},
            published_ms=found["published_ms"],
            is_start=found["is_start"],
            prefix=found["prefix"],
            deletes=found["deletes"],
            bad_records=found.get("bad_records", ""),
            in_kafka={
                topic: LogRange.of_json(of) for topic, of in found.get("in_kafka", {}).items()
            },
            into=found.get("into", {}),
        )


@dataclass(frozen=True, slots=True)
class Logged:
    """A cut in the log, with the batch id of the previous cut."""

    before: int
    batch: int
    records: tuple[ProgressRecord, ...]
