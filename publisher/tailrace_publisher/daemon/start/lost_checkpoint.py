"""A start without a whole checkpoint: a first one, or one that lost it or its end (ADR 0014)."""

from __future__ import annotations

import structlog

from tailrace_publisher.checkpoint.published import Published, accepting_offset
from tailrace_publisher.checkpoint.reader import Stored, existing_topics
from tailrace_publisher.daemon.tables.publisher_state import PublisherState
from tailrace_publisher.errors import CheckpointLost
from tailrace_publisher.runtime import DatabaseTopics
from tailrace_publisher.source.log.identity import DatabaseIdentity
from tailrace_publisher.source.log.loss import check_not_backwards
from tailrace_schemas.position.lsn import Lsn

_log = structlog.get_logger(__name__)


def is_whole(stored: Stored, published: Published | None) -> bool:
    """Return whether there is a checkpoint and nothing was published after it."""
    own = stored.database
    return own is not None and (published is None or not published.is_after(own))


def state_without_checkpoint(
    topics: DatabaseTopics,
    stored: Stored,
    published: Published | None,
    identity: DatabaseIdentity,
    newest: Lsn,
    *,
    is_secondary: bool,
) -> PublisherState:
    """Create the state to start with.

    Args:
        stored: the checkpoint, which is not whole.
        published: the newest progress record.
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
    if published is None:
        _log.info("checkpoint_missing", database=database, position=str(newest))
        return PublisherState.first_start(server, database, identity, newest)
    accepted_at = None
    signals = topics.names.signals
    if signals in existing_topics(topics.kafka):
        wanted = published.accepted(server, database)
        accepted_at = accepting_offset(topics.kafka, signals, wanted)
    if accepted_at is None:
        found = None if stored.database is None else stored.database.closed_lsn
        raise CheckpointLost(topics.names, database, published.offset, published.closed_lsn, found)
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
