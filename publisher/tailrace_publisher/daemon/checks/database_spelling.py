"""How the database's name is spelled: topics, subjects and checkpoints bear it.

SQL Server opens a database by its name in any case, where its collation says so, and Kafka's names
are exact. Under another spelling the same database would get new topics without a word.
"""

from __future__ import annotations

from collections.abc import Mapping

import structlog

from tailrace_publisher.errors import PreflightError
from tailrace_publisher.ports import Connection
from tailrace_publisher.source.log.queries import database_name, is_this_database

_log = structlog.get_logger(__name__)


def check_spelling(
    connection: Connection, configured: str, others: Mapping[str, object] | None
) -> None:
    """Check that the configuration spells the database as it was published, else as it is called.

    Args:
        connection: to the database.
        configured: the configured spelling.
        others: the spellings that have a checkpoint; None if the configured one has one.

    Raises:
        PreflightError: it was published under another spelling, or is published for the first time
            and is called otherwise.
        SourceError: the server did not answer.
    """
    actual = database_name(connection)
    if others is None:
        if configured != actual:
            _log.warning(
                "database_spelled_otherwise",
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
                f"source.database: database {actual} was published as {published[0]}, and not as"
                f" {configured}: its topics and its checkpoint bear that name. Set source.database"
                f" to {published[0]}, or publish under another prefix"
            ]
        )
    if configured != actual:
        raise PreflightError(
            [
                f"source.database: the server calls the database {actual}, not {configured}: topics"
                f" and checkpoints will bear its name, so set source.database to {actual}"
            ]
        )
