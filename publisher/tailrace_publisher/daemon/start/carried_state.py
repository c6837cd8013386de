"""What a publisher passes from one session to the next, in addition to its records in Kafka."""

from __future__ import annotations

from dataclasses import dataclass, field

from tailrace_publisher.daemon.start.fencing import FencingCheck
from tailrace_publisher.daemon.status.status_board import PublisherBoard
from tailrace_publisher.daemon.tables.known_schemas import KnownSchemas
from tailrace_publisher.daemon.tables.stopped import StoppedTables
from tailrace_publisher.source.catalog.instances import KnownCatalog


@dataclass(slots=True)
class CarriedState:
    """What outlives a session; a retry does not read it again.

    Attributes:
        fencing: the last known checkpoint of this process.
        catalog: the known capture instances.
        once: what a process does or logs only once, and has done.
    """

    fencing: FencingCheck
    stopped: StoppedTables
    board: PublisherBoard
    catalog: KnownCatalog
    schemas: KnownSchemas = field(default_factory=KnownSchemas)
    once: set[str] = field(default_factory=set)

    def doubt_registry(self) -> None:
        """Query the registry again for everything.

        A subject changes only when somebody publishes to its topic. So the known answers are void
        once another publisher may have published. They are also void after the registry failed,
        because it may be another registry now.
        """
        self.schemas = KnownSchemas()
