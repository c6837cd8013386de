"""A thread of upkeep, and what it may do at the source.

A change of a source waits for locks, so it has a thread and a connection of its own. Whatever goes
wrong in the thread is a result: the main loop names it, counts it and tries again later.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future, wait
from typing import Any, Final, TypeVar

import structlog

from tailrace_publisher.errors import PublisherError, SourceBusy, UnexpectedTableError
from tailrace_publisher.ports import Connection
from tailrace_publisher.runtime import Runtime
from tailrace_publisher.source.log.proven_source import ProvenSource, PublishedHistory
from tailrace_service.fault_place import place_of

_log = structlog.get_logger(__name__)

_Made = TypeVar("_Made")

_CANCEL_EVERY_S: Final = 0.2


def result_of(done: Future[_Made], doing: str) -> _Made | PublisherError:
    """Return the result of a thread, or the error that it ended with, of whatever kind.

    Args:
        doing: what the thread does, for the log of an unforeseen error.
    """
    try:
        return done.result()
    except PublisherError as error:
        return error
    except Exception as error:  # noqa: BLE001 - a fault in upkeep must not end the publisher
        _log.error(
            "unexpected_error", doing=doing, error=type(error).__name__, where=place_of(error)
        )
        return UnexpectedTableError(doing, error)


class SourceThread:
    """A thread whose tasks change the source; one task at a time."""

    def __init__(self, runtime: Runtime, name: str) -> None:
        self._runtime = runtime
        self._executor = runtime.ports.executor(name)
        self._connection: Connection | None = None
        self._running: Future[Any] | None = None
        self._is_closing = False

    def submit(
        self, task: Callable[[ProvenSource], _Made], history: PublishedHistory
    ) -> Future[_Made]:
        """Run a task on a connection that is proven to hold the published history.

        Returns:
            Its result. It raises HistoryUnproven if the source is another one, and SourceError if
            the server does not answer.
        """
        running = self._executor.submit(self._run, task, history)
        self._running = running
        return running

    def is_ending(self) -> bool:
        """Return whether a task is to end before its next statement."""
        return self._is_closing or self._runtime.stop.is_set()

    def close(self) -> None:
        """Cancel the running statement, and end the thread.

        A statement may take ``source.query_timeout_s``, and the next session waits for the end of
        this one. A cancel that comes between two statements has no effect, so it is repeated.
        """
        self._is_closing = True
        while self._running is not None and not self._running.done():
            if self._connection is not None:
                self._connection.cancel()
            wait([self._running], _CANCEL_EVERY_S)
        self._executor.shutdown(wait=True, cancel_futures=True)

    def _run(self, task: Callable[[ProvenSource], _Made], history: PublishedHistory) -> _Made:
        with self._runtime.ports.connect(self._runtime.config.source.for_changes) as connection:
            self._connection = connection
            try:
                if self._is_closing:
                    raise SourceBusy("the session ends")
                return task(ProvenSource(connection, history))
            finally:
                self._connection = None
