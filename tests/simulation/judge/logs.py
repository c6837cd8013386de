"""What the publisher tells its operator: which tables it has stopped, and that it has started."""

from __future__ import annotations

from collections.abc import Callable, MutableMapping
from dataclasses import dataclass, field
from typing import Any, Final

import structlog

from tailrace_publisher.errors import PositionExpired, RowsSwitched
from tailrace_publisher.metrics.publisher_metrics import Metrics
from tests.simulation.sqlserver.connection import DEADLOCKED
from tests.simulation.world import Finding

_NEVER_DUE: Final = frozenset(
    {"EncodeError", "SchemaRefused", "SourceError", "UnexpectedTableError", "UnsupportedType"}
)
"""What no table of the model can be stopped for: all its values and types may be carried."""

_GAPS: Final = frozenset({PositionExpired.__name__, RowsSwitched.__name__})
"""Stopped for these, a table lacks changes: no start reads it again."""


@dataclass(slots=True)
class Told:
    """The events of the structured log that the judge needs.

    Attributes:
        where: tells the ticks of the moment.
        stopped: when the table of a topic was last told to be stopped, in ticks.
        renamed: tables that were renamed at the source: reading them may have failed for it.
        gaps: the topics whose tables were last told to be stopped for changes that are gone.
        restarted: the topics whose tables this life began again, until a record names them.
        sessions: how many came to their checkpoint, in all.
        given_up: the topics of whose tables a part was to be read again, and could not be.
        parts_stopped: the topics of whose tables operators stopped such a part.
        starts: a mark for each start that came to its checkpoint.
        metrics: the publisher's counts.
        next_look_in_s: seconds until the publisher compares partitions again, after a lock.
        is_verbose: whether to print every event.
    """

    is_verbose: bool
    where: Callable[[], int]
    stopped: dict[str, int] = field(default_factory=dict)
    renamed: set[str] = field(default_factory=set)
    gaps: set[str] = field(default_factory=set)
    starts: list[int] = field(default_factory=list)
    sessions: int = 0
    restarted: set[str] = field(default_factory=set)
    given_up: set[str] = field(default_factory=set)
    parts_stopped: set[str] = field(default_factory=set)
    metrics: Metrics = field(default_factory=Metrics)
    next_look_in_s: float = 0.0

    def take(self, _logger: Any, level: str, event: MutableMapping[str, Any]) -> str:
        """A processor of structlog: the last one."""
        name = event.get("event")
        ticks = self.where()
        if name == "blocks_failed":
            raise Finding(f"the block path had a fault: {event['error']} in {event['where']}")
        if name == "table_stopped":
            if event.get("error") in _NEVER_DUE and event["table"] not in self.renamed:
                raise Finding(f"{event['table']} was stopped: {event['reason']}")
            topic = f"sim.{event['table']}"
            self.stopped[topic] = ticks
            if event.get("error") in _GAPS:
                self.gaps.add(topic)
            else:
                self.gaps.discard(topic)
        elif name == "retrying" and DEADLOCKED in str(event.get("reason")):
            raise Finding(f"the session began again for one statement: {event['reason']}")
        elif name == "partial_snapshot_given_up":
            self.given_up.add(f"sim.{event['table']}")
        elif name == "partial_snapshot_stopped":
            self.parts_stopped.add(f"sim.{event['table']}")
        elif name == "table_restarted":
            self.gaps.discard(f"sim.{event['table']}")
            self.restarted.add(f"sim.{event['table']}")
        elif name in {"checkpoint_found", "checkpoint_missing"}:
            self.starts.append(ticks)
            self.sessions += 1
            self.restarted.clear()
            self.gaps.clear()  # what is stopped is told again; a stop may not have been committed
            self.next_look_in_s = 0.0
        elif name == "partitions_not_compared":
            self.next_look_in_s = event["again_in_s"]
        if self.is_verbose:
            facts = " ".join(f"{key}={value}" for key, value in event.items() if key != "event")
            print(f"  [{ticks}] {level} {name} {facts}")  # noqa: T201
        raise structlog.DropEvent

    def listen(self) -> None:
        """Take the log of this process."""
        structlog.configure(processors=[self.take], cache_logger_on_first_use=False)
