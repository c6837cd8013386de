"""How far the lakes are that cleanup and rotation wait for (option lakes; ADR 0087).

A thread of its own reads the positions, because brokers may answer late. A position that was read
once stays true: what a lake has, it has.
"""

from __future__ import annotations

import math
from concurrent.futures import Executor, Future
from typing import Final

import structlog

from tailrace_publisher.checkpoint.lake_position import lake_position
from tailrace_publisher.checkpoint.published import Published
from tailrace_publisher.daemon.tables.publisher_state import PublisherState
from tailrace_publisher.daemon.upkeep.source_thread import result_of
from tailrace_publisher.errors import LakeUnknown, PublisherError
from tailrace_publisher.runtime import DatabaseTopics, Runtime
from tailrace_schemas.position.lsn import Lsn
from tailrace_service.registry.client import RegistryError

_log = structlog.get_logger(__name__)

_PATIENCE_S: Final = 10.0
"""Short, because the positions are read again soon."""

_Read = dict[str, Published | PublisherError | RegistryError]


class Lakes:
    """Closed LSNs of the lakes.

    Args:
        state: has the closed LSN up to which everything is published.
        executor: has exactly one thread.
    """

    def __init__(
        self, runtime: Runtime, topics: DatabaseTopics, state: PublisherState, executor: Executor
    ) -> None:
        self._runtime = runtime
        self._topics = topics
        self._state = state
        self._executor = executor
        self._running: Future[_Read] | None = None
        self._due_at = -math.inf
        self._has: dict[str, Published] = {}
        self._reasons: dict[str, str] = {}

    @property
    def closed_lsn(self) -> Lsn:
        """LSN up to which every lake has everything; zero while one of them is unknown."""
        if len(self._has) < len(set(self._runtime.config.lakes)):
            return Lsn.ZERO
        return min((found.closed_lsn for found in self._has.values()), default=Lsn.ZERO)

    def look(self) -> None:
        """Read the positions if it is time; never waits for the brokers."""
        if self._running is not None:
            if not self._running.done():
                return
            found = result_of(self._running, "reading how far the lakes are")
            if isinstance(found, PublisherError):
                found = dict.fromkeys(self._runtime.config.lakes, found)
            self._take(found)
            self._running = None
        now = self._runtime.clock.monotonic()
        if now >= self._due_at:
            self._due_at = now + self._runtime.config.cleanup.every_s
            self._running = self._executor.submit(self._read)
        self._show_waits()

    def _read(self) -> _Read:
        """Read the position of each lake; runs in the thread."""
        found: _Read = {}
        for group in self._runtime.config.lakes:
            try:
                found[group] = lake_position(self._topics, group, _PATIENCE_S)
            except (PublisherError, RegistryError) as error:
                found[group] = error
        return found

    def _take(self, read: _Read) -> None:
        for group, found in read.items():
            if isinstance(found, Published):
                self._has[group] = found
                if self._reasons.pop(group, None) is not None:
                    _log.info("lake_known", group=group, closed_lsn=str(found.closed_lsn))
                continue
            if isinstance(found, LakeUnknown):
                self._has.pop(group, None)
            if self._reasons.get(group) != str(found):
                self._reasons[group] = str(found)
                self._runtime.metrics.failed(found, str(found))
                _log.warning(
                    "lake_unknown",
                    group=group,
                    reason=str(found),
                    effect="change rows and older capture instances stay until the lake is known",
                )

    def _show_waits(self) -> None:
        closed_lsn = self._state.closed_lsn
        now_s = self._runtime.clock.now_ms() / 1000
        for group in self._runtime.config.lakes:
            found, wait_s = self._has.get(group), math.inf
            if found is not None and found.closed_lsn >= closed_lsn:
                wait_s = 0.0
            elif found is not None and found.closed_commit_ms is not None:
                wait_s = max(0.0, now_s - found.closed_commit_ms / 1000)
            self._runtime.metrics.lake_wait.labels(group=group).set(wait_s)
