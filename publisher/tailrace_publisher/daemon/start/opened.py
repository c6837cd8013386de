"""The state that a session starts with: the checkpoint's, if the source continues it."""

from __future__ import annotations

from collections.abc import Collection
from typing import Final

import structlog

from tailrace_publisher.checkpoint.published import newest_published, others_published
from tailrace_publisher.checkpoint.reader import read_checkpoints
from tailrace_publisher.daemon.checks.database_spelling import check_spelling
from tailrace_publisher.daemon.offline.own_record import end_older_publisher
from tailrace_publisher.daemon.start.carried_state import CarriedState
from tailrace_publisher.daemon.start.lost_checkpoint import is_whole, state_without_checkpoint
from tailrace_publisher.daemon.start.read_mode import apply_read_mode
from tailrace_publisher.daemon.start.start import apply_start_position, log_ignored_start
from tailrace_publisher.daemon.tables.publisher_state import PublisherState, known_identity
from tailrace_publisher.errors import CheckpointLost, ConfigError, PublisherReplaced
from tailrace_publisher.options.publisher_config import PublisherConfig
from tailrace_publisher.ports import Connection
from tailrace_publisher.runtime import DatabaseTopics
from tailrace_publisher.source.log.identity import DatabaseIdentity, continuity, visible_identity
from tailrace_publisher.source.log.loss import (
    check_continues,
    check_not_backwards,
    check_same_database,
)
from tailrace_publisher.source.log.queries import is_read_only, max_lsn
from tailrace_schemas.position.lsn import Lsn

_log = structlog.get_logger(__name__)

_FEW: Final = 100
"""Offsets of the progress topic that a start reads at once: its newest record is among the last."""


def opened_state(
    config: PublisherConfig, control: Connection, topics: DatabaseTopics, carried: CarriedState
) -> PublisherState:
    """Create the state to continue from: the checkpoint's, else that of a first start.

    Args:
        topics: of the database, whose transactional id this session already has.
        carried: what outlives the session.

    Raises:
        PublisherReplaced: another publisher has taken over.
        ConfigError: another database is published under the prefix.
        PublisherError, RegistryError: a system does not answer, or the database has changed.
    """
    stored = end_older_publisher(config, topics, read_checkpoints(topics))
    if not carried.fencing.found(stored.database, stored.stopped):
        carried.doubt_registry()
        if stored.database is not None:
            carried.stopped.doubt_gaps()
    published = newest_published(topics, block=_FEW)
    identity = visible_identity(control)
    newest = max_lsn(control)
    state = PublisherState.restore(topics.server, topics.database, identity, stored)
    others = set(stored.others)
    if stored.database is None and published is None:
        others |= others_published(topics, block=_FEW)
    check_spelling(control, topics.database, None if state else others)
    _check_alone(topics, others, is_first=stored.database is None)
    if state is None or stored.database is None or not is_whole(stored, published):
        try:
            state = state_without_checkpoint(
                topics,
                stored,
                published,
                identity,
                newest or Lsn.ZERO,
                is_secondary=is_read_only(control),
            )
        except CheckpointLost as error:
            if read_checkpoints(topics).database == stored.database:
                raise
            raise PublisherReplaced(
                f"another publisher of database {topics.database} with the same prefix started"
                " while this one did. Fix: stop one of them, or give it a prefix of its own"
            ) from error
        apply_start_position(config, control, topics.kafka, newest, state)
        state.commit = continuity(control, state.position.commit_lsn).commit
        apply_read_mode(state, None, config.source.read_mode)
        state.map_number = 0
        return state
    apply_read_mode(state, stored.database, config.source.read_mode)
    log_ignored_start(config.start, carried.once, f"there is a checkpoint, at {state.position}")
    _check_continues(control, state, known_identity(stored.database), identity, newest)
    state.map_number = 0
    _log.info("checkpoint_found", database=topics.database, position=str(state.position))
    return state


def _check_continues(
    control: Connection,
    state: PublisherState,
    known: DatabaseIdentity,
    found: DatabaseIdentity,
    newest: Lsn | None,
) -> None:
    """Check that the database's log continues what was published."""
    position = state.position.commit_lsn
    entry = continuity(control, position)
    has_commit = state.commit is not None and entry.is_of(state.commit)
    is_secondary = position > Lsn.ZERO and is_read_only(control)
    # A secondary may know the fork at the position, and not have redone the commit there yet.
    may_get_it = is_secondary and (newest or Lsn.ZERO) < position
    is_kept = has_commit or may_get_it
    check_same_database(state.database, known, found, position, has_commit=is_kept)
    if position > Lsn.ZERO:
        check_not_backwards(state.database, position, newest, is_secondary=is_secondary)
    if state.commit is None:
        state.commit = entry.commit
    else:
        check_continues(state.database, state.commit, entry)
    if not known.is_same_copy(state.identity):
        _log.info("database_moved", database=state.database, was=str(known), found=str(found))


def _check_alone(topics: DatabaseTopics, found: Collection[str], *, is_first: bool) -> None:
    """Refuse a first start alongside another database: both would write one progress partition.

    Raises:
        ConfigError: another database of the server is published under the prefix.
    """
    if not found:
        return
    prefix, others = topics.names.prefix, ", ".join(sorted(found))
    if is_first:
        raise ConfigError(
            [
                f"prefix: database {others} is published under prefix {prefix}. LSNs of two"
                f" databases do not compare, so no sink could read them. Fix: give database"
                f" {topics.database} a prefix of its own, such as {prefix}.{topics.database}"
            ]
        )
    _log.warning(
        "prefix_shared",
        prefix=prefix,
        others=sorted(found),
        effect="progress records of several databases are in one partition: no sink can read them",
        fix="publish each database under a prefix of its own",
    )
