"""A start without a checkpoint: a first one, or one that lost it (ADR 0014)."""

from __future__ import annotations

import structlog

from tailrace_publisher.checkpoint.published import accepting_offset, newest_published
from tailrace_publisher.checkpoint.reader import existing_topics
from tailrace_publisher.daemon.tables.publisher_state import PublisherState
from tailrace_publisher.errors import CheckpointLost
from tailrace_publisher.runtime import DatabaseTopics
from tailrace_publisher.source.log.identity import DatabaseIdentity
from tailrace_publisher.source.log.loss import check_not_backwards
from tailrace_schemas.position.lsn import Lsn

_log = structlog.get_logger(__name__)


def state_without_checkpoint(
    topics: DatabaseTopics,
    identity: DatabaseIdentity,
    newest: Lsn,
    *,
    is_secondary: bool,
) -> PublisherState:
    """Create the state to start with.

    Args:
        identity: of the database, as found now.
        newest: newest captured commit LSN.
        is_secondary: whether the source only redoes the primary's changes.

    Raises:
        CheckpointLost: the database was published before, and nobody accepted the loss of its
            checkpoint.
        LsnWentBackwards: the loss is accepted, but the database is older than what was published.
        CheckpointUnavailable: a topic could not be read.
        CheckpointError: the progress topic holds a foreign record.
        RegistryError: a record's schema is not available.
    """
    server, database = topics.server, topics.database
    published = newest_published(topics)
    if published is None:
        _log.info("checkpoint_missing", database=database, position=str(newest))
        return PublisherState.first_start(server, database, identity, newest)
    accepted_at = None
    signals = topics.names.signals
    if signals in existing_topics(topics.kafka):
        wanted = published.accepted(server, database)
        accepted_at = accepting_offset(topics.kafka, signals, wanted)
    if accepted_at is None:
        raise CheckpointLost(topics.names, database, published.offset, published.closed_lsn)
    check_not_backwards(database, published.closed_lsn, newest, is_secondary=is_secondary)
    _log.warning(
        "checkpoint_loss_accepted",
        database=database,
        closed_lsn=str(published.closed_lsn),
        position=str(newest),
        effect="new snapshots of all tables; subscribers miss the changes between the two LSNs",
    )
    return PublisherState.after_lost_checkpoint(
        server,
        database,
        identity,
        newest,
        closed_lsn=published.closed_lsn,
        signals_offset=accepted_at + 1,
    )
