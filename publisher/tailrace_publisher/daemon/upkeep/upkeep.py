"""The parts that look after the source, as one part of a session."""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import dataclass

from tailrace_publisher.daemon.tables.publisher_state import PublisherState
from tailrace_publisher.daemon.tables.tables import PublishedTables
from tailrace_publisher.daemon.upkeep.cleanup import Cleanup
from tailrace_publisher.daemon.upkeep.lakes import Lakes
from tailrace_publisher.daemon.upkeep.retention_watch import RetentionWatch
from tailrace_publisher.daemon.upkeep.rotation import Rotation
from tailrace_publisher.daemon.upkeep.source_thread import SourceThread
from tailrace_publisher.daemon.upkeep.space_watch import SpaceWatch
from tailrace_publisher.options.cleanup import CleanupWait
from tailrace_publisher.options.tables import DropAfter
from tailrace_publisher.ports import Connection
from tailrace_publisher.runtime import DatabaseTopics, Runtime


@dataclass(frozen=True, slots=True)
class Upkeep:
    """Forecasts, rotation and cleanup; None of what is not configured."""

    retention: RetentionWatch
    space: SpaceWatch
    lakes: Lakes | None
    rotation: Rotation | None
    cleanup: Cleanup | None

    def watch(self, *, is_caught_up: bool) -> None:
        """Update the forecasts.

        Args:
            is_caught_up: whether everything that was captured is published.

        Raises:
            SourceError: the server did not answer.
        """
        self.retention.look(is_caught_up=is_caught_up)
        self.space.look()

    def look(self) -> None:
        """Take the next steps that are due; never waits for a server."""
        if self.lakes is not None:
            self.lakes.look()
        if self.rotation is not None:
            self.rotation.look()
        if self.cleanup is not None:
            self.cleanup.look()


def open_upkeep(
    runtime: Runtime,
    control: Connection,
    topics: DatabaseTopics,
    tables: PublishedTables,
    state: PublisherState,
    resources: ExitStack,
) -> Upkeep:
    """Create what is configured.

    Args:
        control: connection of the main loop.
        resources: where the ends of the threads are registered.
    """
    config = runtime.config

    def thread(name: str) -> SourceThread:
        made = SourceThread(runtime, name)
        resources.callback(made.close)
        return made

    lakes = None
    if config.waits_for_lakes:
        executor = runtime.ports.executor("lakes")
        resources.callback(executor.shutdown)
        lakes = Lakes(runtime, topics, state, executor)
    of_rotation = lakes if config.tables.drop_after is DropAfter.LAKE else None
    of_cleanup = lakes if config.cleanup.wait_for is CleanupWait.LAKE else None
    return Upkeep(
        RetentionWatch(control, runtime),
        SpaceWatch(control, runtime),
        lakes,
        Rotation(runtime, tables, state, thread("rotation"), of_rotation)
        if config.tables.may_rotate
        else None,
        Cleanup(runtime, tables, state, thread("cleanup"), of_cleanup)
        if config.cleanup.is_on
        else None,
    )
