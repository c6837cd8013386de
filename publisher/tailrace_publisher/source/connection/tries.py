"""Sends statements again that lost against others.

Such a statement was a deadlock's victim, got no lock in time, or met a conflict of row versions.
The server has undone it, the connection lives, and the same statement mostly succeeds the next
time. Every statement of a session only reads, within bounds of its own, so it may be repeated. A
statement that ran into the query timeout is not repeated: it would take as long again.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Final, TypeVar

import structlog

from tailrace_publisher.errors import SourceBusy
from tailrace_publisher.ports import Connection
from tailrace_service.closing import Closing

_log = structlog.get_logger(__name__)

TRIES: Final = 3
"""How often a statement is sent before its error counts."""

_Made = TypeVar("_Made")


def tried(statement: Callable[[], _Made]) -> _Made:
    """Return a statement's answer; repeat the statement if it lost against others.

    Raises:
        SourceBusy: it lost each time, or took too long.
    """
    for attempt in range(1, TRIES):
        try:
            return statement()
        except SourceBusy as error:
            if not error.number:  # the driver's own timeout
                raise
            _log.info("statement_repeated", number=error.number, attempt=attempt)
    return statement()


class TryingConnection(Closing):
    """A connection whose statements are :func:`tried`, so they may only read."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    @property
    def queries(self) -> int:
        """Number of statements sent so far."""
        return self._connection.queries

    def close(self) -> None:
        """See :class:`Connection`."""
        self._connection.close()

    def cancel(self) -> None:
        """See :class:`Connection`."""
        self._connection.cancel()

    def query(self, sql: str, *parameters: Any) -> list[Any]:
        """See :class:`Connection`."""
        return tried(partial(self._connection.query, sql, *parameters))

    def query_sets(self, sql: str, *parameters: Any) -> list[list[Any]]:
        """See :class:`Connection`."""
        return tried(partial(self._connection.query_sets, sql, *parameters))

    def query_together(self, statements: Sequence[str], *parameters: Any) -> list[list[Any]]:
        """See :class:`Connection`."""
        return tried(partial(self._connection.query_together, statements, *parameters))

    def query_within(
        self, sql: str, *parameters: Any, size_of: Callable[[Any], int], at_most: int
    ) -> tuple[list[list[Any]], bool]:
        """See :class:`Connection`."""
        return tried(
            partial(
                self._connection.query_within, sql, *parameters, size_of=size_of, at_most=at_most
            )
        )
