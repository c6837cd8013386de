"""The parts that look after the source, as one part of a session."""

from __future__ import annotations

from concurrent.futures import Executor
from contextlib import ExitStack
from dataclasses import dataclass

from tailrace_publisher.daemon.tables.publisher_state import PublisherState
from tailrace_publisher.daemon.tables.tables import PublishedTables
from tailrace_publisher.daemon.upkeep.cleanup import Cleanup
from tailrace_publisher.daemon.upkeep.lakes import Lakes
from tailrace_publisher.daemon.upkeep.log_valve import LogValve
from tailrace_publisher.daemon.upkeep.retention_watch import RetentionWatch
from tailrace_publisher.daemon.upkeep.rotation import Rotation
from tailrace_publisher.daemon.upkeep.space_watch import SpaceWatch
from tailrace_publisher.options.cleanup import CleanupWait
from tailrace_publisher.options.tables import DropAfter
from tailrace_publisher.ports import Connection
from tailrace_publisher.runtime import DatabaseTopics, Runtime


@dataclass(frozen=True, slots=True)
class Upkeep:
    """Forecasts, rotation, cleanup and the log's valve; None of what is not configured."""

    retention: RetentionWatch
    space: SpaceWatch
    lakes: Lakes | None
    rotation: Rotation | None
    cleanup: Cleanup | None
    valve: LogValve | None

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
        """Take the next steps that are due; never waits for a server.

        Raises:
            TableFailed: the log's valve gives up the capture of a table.
        """
        if self.lakes is not None:
            self.lakes.look()
        if self.rotation is not None:
            self.rotation.look()
        if self.cleanup is not None:
            self.cleanup.look()
        if self.valve is not None:
            self.valve.look()


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

    def thread(name: str) -> Executor:
        executor = runtime.ports.executor(name)
        resources.callback(executor.shutdown)
        return executor

    lakes = Lakes(runtime, topics, state, thread("lakes")) if config.waits_for_lakes else None
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
        LogValve(runtime, tables, state, thread("log-valve"))
        if config.source.log_valve.is_on
        else None,
    )
