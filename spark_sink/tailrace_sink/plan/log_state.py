"""The state row of a cut, and the mark of its append."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from tailrace_sink.plan.progress_record import Loss, ProgressRecord
from tailrace_sink.plan.sink_state import SinkState
from tailrace_sink.plan.state_json import state_json, state_of

_EPOCH_SHIFT: Final = 40


@dataclass(frozen=True, slots=True, order=True)
class Mark:
    """Who wrote the log last, and how far.

    Attributes:
        epoch: number of the sink's start; each takes the next one.
        batch: batch id of the last cut.
    """

    epoch: int
    batch: int

    @property
    def version(self) -> int:
        """As Delta's transaction version."""
        return (self.epoch << _EPOCH_SHIFT) | self.batch

    @classmethod
    def of_version(cls, version: int) -> Mark:
        """The mark of a transaction version."""
        return cls(version >> _EPOCH_SHIFT, version & ((1 << _EPOCH_SHIFT) - 1))


@dataclass(frozen=True, slots=True)
class LogState:
    """The state row of a cut.

    Attributes:
        state: positions and LSN; nothing of tables.
        epoch: of the sink that wrote it.
        owner: random name of that sink: two that start together may take the same epoch.
        named: topics of unfinished snapshots, by shard.
        lost: topics of which this cut does not have all records.
        published_ms: when its newest record was published.
        is_start: whether a start wrote it, for the batch that it found.
        prefix: first part of the topics' names.
        deletes: what becomes of deleted rows in the tables: hard or soft.
        bad_records: what becomes of records that are no changes (``sink.on_bad_record``).
    """

    state: SinkState
    epoch: int
    owner: str
    named: Mapping[int, frozenset[str]] = field(default_factory=dict)
    lost: Mapping[str, Loss] = field(default_factory=dict)
    published_ms: int = 0
    is_start: bool = False
    prefix: str = ""
    deletes: str = ""
    bad_records: str = ""

    @property
    def mark(self) -> Mark:
        """The mark of its append."""
        return Mark(self.epoch, self.state.batch)

    def to_json(self) -> str:
        """As the row holds it."""
        named = {str(shard): sorted(topics) for shard, topics in self.named.items()}
        return json.dumps(
            {
                "state": state_json(self.state),
                "epoch": self.epoch,
                "owner": self.owner,
                "named": named,
                "lost": {topic: loss.reason for topic, loss in self.lost.items()},
                "lost_below": {t: loss.below for t, loss in self.lost.items() if loss.below},
                "published_ms": self.published_ms,
                "is_start": self.is_start,
                "prefix": self.prefix,
                "deletes": self.deletes,
                "bad_records": self.bad_records,
            }
        )

    @classmethod
    def of_json(cls, text: str) -> LogState:
        """From the row."""
        found = json.loads(text)
        below = {
            topic: {int(partition): offset for partition, offset in of.items()}
            for topic, of in found.get("lost_below", {}).items()
        }
        return cls(
            state=state_of(found["state"]),
            epoch=found["epoch"],
            owner=found["owner"],
            named={int(shard): frozenset(topics) for shard, topics in found["named"].items()},
            lost={t: Loss(reason, below.get(t, {})) for t, reason in found["lost"].items()},
            published_ms=found["published_ms"],
            is_start=found["is_start"],
            prefix=found["prefix"],
            deletes=found["deletes"],
            bad_records=found.get("bad_records", ""),
        )


@dataclass(frozen=True, slots=True)
class Logged:
    """A cut that is in the log, with the batch id of the cut before it."""

    before: int
    batch: int
    records: tuple[ProgressRecord, ...]
