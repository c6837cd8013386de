"""What a publisher keeps from one life to the next, beside what Kafka holds for it."""

from __future__ import annotations

from dataclasses import dataclass, field

from tailrace_publisher.daemon.start.fencing import FencingCheck
from tailrace_publisher.daemon.status.status_board import PublisherBoard
from tailrace_publisher.daemon.tables.known_schemas import KnownSchemas
from tailrace_publisher.daemon.tables.stopped import StoppedTables
from tailrace_publisher.source.catalog.instances import KnownCatalog


@dataclass(slots=True)
class Kept:
    """What outlives a session; a retry asks for none of it again.

    Attributes:
        fencing: what this process last knew of the checkpoint.
        stopped: the tables that cannot go on.
        board: what the publisher tells of itself.
        catalog: what was read of capture instances.
        schemas: what the registry said.
        once: what a process does once, or tells once, and has.
    """

    fencing: FencingCheck
    stopped: StoppedTables
    board: PublisherBoard
    catalog: KnownCatalog
    schemas: KnownSchemas = field(default_factory=KnownSchemas)
    once: set[str] = field(default_factory=set)

    def doubt_registry(self) -> None:
        """Ask the registry again for everything.

        A subject changes only by who publishes to its topic. So what is known of it is void once
        somebody else may have published, or the registry has failed: it may be another one.
        """
        self.schemas = KnownSchemas()
