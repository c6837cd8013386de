"""The spelling of the database's name, which is part of topics, subjects and checkpoints.

SQL Server opens a database by its name in any case if its collation allows it, but Kafka's names
are exact. Under another spelling the same database would silently get new topics.
"""

from __future__ import annotations

from collections.abc import Collection

import structlog

from tailrace_publisher.errors import PreflightError
from tailrace_publisher.ports import Connection
from tailrace_publisher.source.log.queries import database_name, is_this_database

_log = structlog.get_logger(__name__)


def check_spelling(connection: Connection, configured: str, others: Collection[str] | None) -> None:
    """Check that the configured spelling is the published one, else the database's own one.

    Args:
        others: the spellings that were published; None if the configured one has one.

    Raises:
        PreflightError: it was published under another spelling. Or it is published for the first
            time and has another spelling itself.
        SourceError: the server did not answer.
    """
    actual = database_name(connection)
    if others is None:
        if configured != actual:
            _log.warning(
                "database_spelling_differs",
                configured=configured,
                actual=actual,
                effect="topics and checkpoints keep the spelling of source.database",
            )
        return
    published = sorted(
        other
        for other in others
        if other.casefold() == actual.casefold() and is_this_database(connection, other)
    )
    if published:
        raise PreflightError(
            [
                f"source.database: database {actual} was published as {published[0]}, not as"
                f" {configured}: its topics and its checkpoint have that name. Fix: set"
                f" source.database to {published[0]}, or publish under another prefix"
            ]
        )
    if configured != actual:
        raise PreflightError(
            [
                f"source.database: the server calls the database {actual}, not {configured}: topics"
                f" and checkpoints will have its name. Fix: set source.database to {actual}"
            ]
        )
