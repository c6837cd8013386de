"""Acceptance of a database that may not continue what was published (ADR 0013)."""

from __future__ import annotations

from dataclasses import dataclass, replace

from tailrace_publisher.checkpoint.reader import has_checkpoint_topic
from tailrace_publisher.daemon.adapters.production import production_ports
from tailrace_publisher.daemon.offline.open_topics import open_topics
from tailrace_publisher.daemon.shards.own_record import rewrite_own_record
from tailrace_publisher.daemon.tables.publisher_state import known_identity
from tailrace_publisher.errors import CheckpointError
from tailrace_publisher.options.publisher_config import PublisherConfig
from tailrace_publisher.ports import Ports
from tailrace_publisher.runtime import DatabaseTopics
from tailrace_publisher.source.log.identity import DatabaseIdentity, visible_identity
from tailrace_publisher.source.log.loss import check_not_backwards
from tailrace_publisher.source.log.queries import max_lsn
from tailrace_schemas.position.lsn import Lsn
from tailrace_schemas.records.checkpoint import DatabaseCheckpoint
from tailrace_schemas.records.shards import transactional_id


@dataclass(frozen=True, slots=True)
class Accepted:
    """What was accepted.

    Attributes:
        known: the database as it was published.
        found: the database as it is now.
        position: last published LSN. Publishing continues after it.
    """

    known: DatabaseIdentity
    found: DatabaseIdentity
    position: Lsn


def accept_database(config: PublisherConfig, ports: Ports | None = None) -> Accepted:
    """Write into the checkpoint that the present database continues what was published.

    Only the database's identity is written; the position and the tables' state stay. The command
    writes under the transactional id of each shard, so running publishers are fenced and end.

    Raises:
        CheckpointError: nothing of the database was published under the prefix.
        LsnWentBackwards: its newest LSN is below the position, so its next changes would be lost.
        PublisherError, RegistryError: a system does not answer, or refuses.
    """
    database = config.source.database
    ports = ports or production_ports()
    with ports.connect(config.source) as connection, open_topics(config, ports) as shards:
        found, newest = visible_identity(connection), max_lsn(connection)
        nothing = CheckpointError(
            f"nothing of {database} was published under prefix {config.prefix}, so there is no"
            " checkpoint to change. Fix: check publisher.prefix and publisher.source.database"
        )
        if not has_checkpoint_topic(shards[0], config.kafka.start_timeout_s):
            raise nothing
        accepted: list[DatabaseCheckpoint] = []
        for topics in shards:
            own = _accepted(config, topics, found, newest)
            if own is not None:
                accepted.append(own)
    if not accepted:
        raise nothing
    earliest = min(accepted, key=lambda own: own.position)
    return Accepted(known_identity(earliest), found, earliest.position.commit_lsn)


def _accepted(
    config: PublisherConfig, topics: DatabaseTopics, found: DatabaseIdentity, newest: Lsn | None
) -> DatabaseCheckpoint | None:
    """Accept the database in a shard's checkpoint; return the record that it had."""
    shard, database = topics.shard, config.source.database

    def accepted(own: DatabaseCheckpoint) -> DatabaseCheckpoint:
        check_not_backwards(database, own.position.commit_lsn, newest, is_secondary=False)
        return _as_found(own, found, topics.kafka.clock.now_ms())

    name = transactional_id(config.prefix, database, shard.map.shards, shard.number)
    return rewrite_own_record(config, topics, name, accepted).database


def _as_found(own: DatabaseCheckpoint, found: DatabaseIdentity, now_ms: int) -> DatabaseCheckpoint:
    """Return the record with the present database, without the commit of the old one."""
    return replace(
        own,
        database_guid=found.database_guid,
        recovery_fork_guid=found.recovery_fork_guid,
        family_guid=found.family_guid,
        tran_end_time=None,
        tran_id=None,
        written_ms=now_ms,
    )
