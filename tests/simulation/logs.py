"""What the publisher tells its operator: which tables it has stopped, and that it has started."""

from __future__ import annotations

from collections.abc import MutableMapping
from dataclasses import dataclass, field
from typing import Any

import structlog

from tailrace_publisher.metrics import Metrics
from tests.simulation.world import World


@dataclass(slots=True)
class Told:
    """The events of the structured log that the judge needs.

    Attributes:
        stopped: topics of tables that were told to be stopped, ever.
        starts: a mark for each start that came to its checkpoint.
        metrics: the publisher's counts.
        is_verbose: whether to print every event.
    """

    is_verbose: bool
    world: World
    stopped: set[str] = field(default_factory=set)
    starts: list[int] = field(default_factory=list)
    metrics: Metrics = field(default_factory=Metrics)

    def take(self, _logger: Any, level: str, event: MutableMapping[str, Any]) -> str:
        """A processor of structlog: the last one."""
        name = event.get("event")
        if name == "table_stopped":
            self.stopped.add(f"sim.{event['table']}")
        elif name in {"checkpoint_found", "checkpoint_missing"}:
            self.starts.append(self.world.ticks)
        if self.is_verbose:
            facts = " ".join(f"{key}={value}" for key, value in event.items() if key != "event")
            print(f"  [{self.world.ticks}] {level} {name} {facts}")  # noqa: T201
        raise structlog.DropEvent

    def listen(self) -> None:
        """Take the log of this process."""
        structlog.configure(processors=[self.take], cache_logger_on_first_use=False)
