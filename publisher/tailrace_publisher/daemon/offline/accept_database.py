"""Acceptance of a database that may not continue what was published (ADR 0013, 0085, 0091)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import cast

from tailrace_publisher.change.instance import CaptureInstance
from tailrace_publisher.change.ranges import is_closed
from tailrace_publisher.checkpoint.reader import Stored, has_checkpoint_topic, read_checkpoints
from tailrace_publisher.daemon.adapters.production import production_ports
from tailrace_publisher.daemon.offline.accepted_records import accepting
from tailrace_publisher.daemon.offline.compensating import (
    Compensation,
    Compensator,
    NotCompensable,
    first_number,
)
from tailrace_publisher.daemon.offline.lost_history import LostHistory, lost_history
from tailrace_publisher.daemon.offline.open_topics import open_topics
from tailrace_publisher.daemon.shards.own_record import Rewrite, rewrite_own_record
from tailrace_publisher.daemon.tables.publisher_state import PublisherState, known_identity
from tailrace_publisher.daemon.tables.table_state import PUBLISHED
from tailrace_publisher.errors import CheckpointError
from tailrace_publisher.options.publisher_config import PublisherConfig
from tailrace_publisher.ports import Connection, Ports
from tailrace_publisher.runtime import DatabaseTopics
from tailrace_publisher.source.catalog.instances import KnownCatalog, read_catalog
from tailrace_publisher.source.log.identity import DatabaseIdentity, visible_identity
from tailrace_publisher.source.log.loss import check_not_backwards
from tailrace_publisher.source.log.queries import max_lsn
from tailrace_schemas.position.lsn import Lsn
from tailrace_schemas.records.checkpoint import DatabaseCheckpoint
from tailrace_schemas.records.shards import transactional_id
from tailrace_schemas.topics.topic_names import TableName


@dataclass(frozen=True, slots=True)
class ComparedShard:
    """A shard's published history next to the database.

    Attributes:
        lost: what only the topics have, or only the database.
        concerned: tables whose topic may differ from the database.
        compensations: of concerned tables, if they were requested and are possible.
        refused: why other concerned tables are not compensated.
    """

    known: DatabaseIdentity
    lost: LostHistory
    concerned: frozenset[TableName]
    compensations: Mapping[TableName, Compensation] = field(default_factory=dict)
    refused: Mapping[TableName, str] = field(default_factory=dict)

    @property
    def again(self) -> frozenset[TableName]:
        """The concerned tables that only a snapshot makes equal to the database."""
        return self.concerned - self.compensations.keys()


@dataclass(frozen=True, slots=True)
class Compared:
    """The published history next to the database.

    Attributes:
        found: the database as it is now.
        shards: those that published something; at least one.
    """

    found: DatabaseIdentity
    newest: Lsn | None
    shards: list[ComparedShard] = field(default_factory=list)

    @property
    def concerned(self) -> list[TableName]:
        """The tables whose topic may differ from the database."""
        return sorted({table for s in self.shards for table in s.concerned}, key=str)

    @property
    def again(self) -> list[TableName]:
        """The concerned tables that only a snapshot makes equal to the database."""
        return sorted({table for s in self.shards for table in s.again}, key=str)


def compare_database(
    config: PublisherConfig, ports: Ports | None = None, *, compensate: bool = False
) -> Compared:
    """Find what was published and is not in the database; write nothing.

    Args:
        compensate: whether to compute the changes that make tables equal to the database.

    Raises:
        CheckpointError: nothing of the database was published under the prefix.
        PublisherError, RegistryError: a system does not answer, or refuses.
    """
    with _opened(config, ports or production_ports(), compensate=compensate) as (source, shards):
        compared = Compared(source.found, source.newest)
        for topics in shards:
            stored = read_checkpoints(topics, config.kafka.start_timeout_s)
            if stored.database is not None:
                state = source.restored(topics, stored)
                compared.shards.append(source.compare(topics, state, stored.database))
    return _not_empty(config, compared)


def accept_database(
    config: PublisherConfig,
    ports: Ports | None = None,
    *,
    snapshots: bool = True,
    compensate: bool = False,
) -> Compared:
    """Write into the checkpoint that the present database continues what was published.

    The position stays. A progress record shows readers what is lost. The command writes under the
    transactional id of each shard, so running publishers are fenced and end.

    Args:
        snapshots: whether the concerned tables start again by a snapshot, which replaces their rows
            in the lake. Until it ends they are not part of a cut.
        compensate: whether to publish the difference as changes instead, in the Kafka transaction
            of the acceptance, for the tables where that is possible.

    Raises:
        CheckpointError: nothing of the database was published under the prefix.
        LsnWentBackwards: its newest LSN is below the position, so its next changes would be lost.
        PublisherError, RegistryError: a system does not answer, or refuses.
    """
    database = config.source.database
    with _opened(config, ports or production_ports(), compensate=compensate) as (source, shards):
        accepted = Compared(source.found, source.newest)

        def change_of(topics: DatabaseTopics, stored: Stored, own: DatabaseCheckpoint) -> Rewrite:
            position = own.position.commit_lsn
            check_not_backwards(database, position, source.newest, is_secondary=False)
            state = source.restored(topics, stored)
            compared = source.compare(topics, state, own)
            accepted.shards.append(compared)
            again = compared.again if snapshots else frozenset[TableName]()
            events = [c.rows for c in compared.compensations.values() if len(c.rows)]
            return accepting(topics, state, own, source.found, compared.lost, again, events)

        for topics in shards:
            shard = topics.shard
            name = transactional_id(config.prefix, database, shard.map.shards, shard.number)
            rewrite_own_record(config, topics, name, partial(change_of, topics))
    return _not_empty(config, accepted)


@dataclass(frozen=True, slots=True)
class _Source:
    """The database as it is now.

    Attributes:
        compensates: whether to compute the changes that make tables equal to it.
    """

    connection: Connection
    config: PublisherConfig
    ports: Ports
    found: DatabaseIdentity
    newest: Lsn | None
    compensates: bool

    def restored(self, topics: DatabaseTopics, stored: Stored) -> PublisherState:
        """Restore a shard's state from its checkpoint, which has a record of the database.

        Raises:
            CheckpointError: a record cannot be read.
        """
        state = PublisherState.restore(topics.server, topics.database, self.found, stored)
        return cast("PublisherState", state)

    def compare(
        self, topics: DatabaseTopics, state: PublisherState, own: DatabaseCheckpoint
    ) -> ComparedShard:
        """Compare the database with what a shard published.

        Args:
            own: the database's own record in the shard's checkpoint.
        """
        instances = self._instances(state)
        lost = lost_history(self.connection, topics, state, instances)
        published = {
            name: topics.names.data(name)
            for name, record in state.records().items()
            if record.state in PUBLISHED
        }
        concerned = frozenset(lost.concerned(published))
        if not self.compensates:
            return ComparedShard(known_identity(own), lost, concerned)
        compensations, refused = self._compensations(topics, state, lost, concerned, instances)
        return ComparedShard(known_identity(own), lost, concerned, compensations, refused)

    def _compensations(
        self,
        topics: DatabaseTopics,
        state: PublisherState,
        lost: LostHistory,
        concerned: frozenset[TableName],
        instances: tuple[CaptureInstance, ...],
    ) -> tuple[dict[TableName, Compensation], dict[TableName, str]]:
        """Return the compensations of the concerned tables, and why others have none."""
        reason = self._refusal(topics, state, lost)
        if reason is not None:
            return {}, dict.fromkeys(concerned, reason)
        by_name = {instance.name: instance for instance in instances}
        compensator = Compensator(self.config, self.ports, self.connection, topics, by_name)
        found: dict[TableName, Compensation] = {}
        refused: dict[TableName, str] = {}
        first = first_number(lost)
        for table in sorted(concerned, key=str):
            try:
                found[table] = compensator.compensation(table, state.of(table), lost, first)
                first += len(found[table].rows)
            except NotCompensable as error:
                refused[table] = str(error)
        return found, refused

    def _refusal(
        self, topics: DatabaseTopics, state: PublisherState, lost: LostHistory
    ) -> str | None:
        """Return why no table can be compensated; None if some may be."""
        if topics.shard.map.shards > 1:
            return "the shards are published up to different LSNs"
        if not is_closed(state.position) or state.closed_lsn != lost.through:
            return "the last published transaction is incomplete"
        if self.newest is None or self.newest < lost.through:
            return f"the database has not reached LSN {lost.through}"
        return None

    def _instances(self, state: PublisherState) -> tuple[CaptureInstance, ...]:
        config, known = self.config, KnownCatalog(by_function=state.by_function)
        return read_catalog(
            *(self.connection, config.source.database, config.message_keys, known),
            state.published_as(),
        ).instances


@contextmanager
def _opened(
    config: PublisherConfig, ports: Ports, *, compensate: bool
) -> Iterator[tuple[_Source, list[DatabaseTopics]]]:
    """Connect to the database, and open its topics by shard."""
    with ports.connect(config.source) as connection, open_topics(config, ports) as shards:
        found, newest = visible_identity(connection), max_lsn(connection)
        if not has_checkpoint_topic(shards[0], config.kafka.start_timeout_s):
            raise _nothing_published(config)
        yield _Source(connection, config, ports, found, newest, compensate), shards


def _not_empty(config: PublisherConfig, compared: Compared) -> Compared:
    if not compared.shards:
        raise _nothing_published(config)
    return compared


def _nothing_published(config: PublisherConfig) -> CheckpointError:
    return CheckpointError(
        f"nothing of {config.source.database} was published under prefix {config.prefix}, so there"
        " is no checkpoint to change. Fix: check publisher.prefix and publisher.source.database"
    )
