"""How the database's name is spelled: topics, subjects and checkpoints bear it.

SQL Server opens a database by its name in any case, where its collation says so, and Kafka's names
are exact. Under another spelling the same database would get new topics without a word.
"""

from __future__ import annotations

import structlog

from tailrace_publisher.checkpoint.reader import databases_with_checkpoint, has_checkpoint_topic
from tailrace_publisher.errors import PreflightError
from tailrace_publisher.ports import Connection
from tailrace_publisher.runtime import DatabaseTopics
from tailrace_publisher.source.queries import database_name, is_this_database

_log = structlog.get_logger(__name__)


def check_spelling(connection: Connection, topics: DatabaseTopics, *, is_begun: bool) -> None:
    """Check that the configuration spells the database as it was published, else as it is called.

    Args:
        connection: to the database.
        topics: with the configured spelling.
        is_begun: whether there is a checkpoint under the configured spelling.

    Raises:
        PreflightError: it was published under another spelling, or is published for the first time
            and is called otherwise.
        CheckpointUnavailable, CheckpointError, RegistryError: the checkpoints cannot be read.
    """
    configured, actual = topics.database, database_name(connection)
    if is_begun:
        if configured != actual:
            _log.warning(
                "database_spelled_otherwise",
                configured=configured,
                actual=actual,
                effect="topics and checkpoints keep the spelling of source.database",
            )
        return
    others = databases_with_checkpoint(topics) if has_checkpoint_topic(topics) else set()
    published = sorted(
        other
        for other in others - {configured}
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
