"""Acceptance of a database that may not continue what was published (ADR 0013, 0085, 0116)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import cast

from tailrace_publisher.change.instance import CaptureInstance
from tailrace_publisher.checkpoint.published import check_whole, newest_published
from tailrace_publisher.checkpoint.reader import Stored, has_checkpoint_topic, read_checkpoints
from tailrace_publisher.daemon.adapters.production import production_ports
from tailrace_publisher.daemon.offline.accepted_records import accepting
from tailrace_publisher.daemon.offline.lost_history import LostHistory, lost_history
from tailrace_publisher.daemon.offline.open_topics import open_topics
from tailrace_publisher.daemon.offline.own_record import Rewrite, rewrite_own_record
from tailrace_publisher.daemon.offline.repairable import Repairable
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
from tailrace_schemas.records.transactional_ids import transactional_id
from tailrace_schemas.topics.topic_names import TableName


@dataclass(frozen=True, slots=True)
class Compared:
    """The published history next to the database.

    Attributes:
        known: the database as it was published.
        found: the database as it is now.
        newest: its newest captured LSN; None if nothing was captured.
        lost: what only the topics have, or only the database.
        concerned: tables whose topic may differ from the database.
        repaired: concerned tables whose rows are read again by their keys, if that was requested.
        refused: why other concerned tables are not repaired.
    """

    known: DatabaseIdentity
    found: DatabaseIdentity
    newest: Lsn | None
    lost: LostHistory
    concerned: frozenset[TableName]
    repaired: frozenset[TableName] = frozenset()
    refused: Mapping[TableName, str] = field(default_factory=dict)

    @property
    def again(self) -> frozenset[TableName]:
        """The concerned tables that only a snapshot makes equal to the database."""
        return self.concerned - self.repaired


def compare_database(
    config: PublisherConfig, ports: Ports | None = None, *, repair: bool = False
) -> Compared:
    """Find what was published and is not in the database; write nothing.

    Args:
        repair: whether to find out which tables can be repaired.

    Raises:
        CheckpointError: nothing of the database was published under the prefix.
        PublisherError, RegistryError: a system does not answer, or refuses.
    """
    with _opened(config, ports or production_ports(), repairs=repair) as (source, topics):
        stored = read_checkpoints(topics, config.kafka.start_timeout_s)
        if stored.database is None:
            raise _nothing_published(config)
        return source.compare(topics, source.restored(topics, stored), stored.database)


def accept_database(
    config: PublisherConfig,
    ports: Ports | None = None,
    *,
    snapshots: bool = True,
    repair: bool = False,
) -> Compared:
    """Write into the checkpoint that the present database continues what was published.

    The position stays. A progress record shows readers what is lost. The command writes under the
    transactional id of the database, so a running publisher is fenced and ends.

    Args:
        snapshots: whether the concerned tables start again by a snapshot, which replaces their rows
            in the lake. Until it ends they are not part of a cut.
        repair: whether to read only the rows again that may differ, for the tables where that is
            possible. The next publisher does it, and the tables stay in the cut. Until then they
            may mix both histories.

    Raises:
        CheckpointError: nothing of the database was published under the prefix.
        LsnWentBackwards: its newest LSN is below the position, so its next changes would be lost.
        PublisherError, RegistryError: a system does not answer, or refuses.
    """
    database = config.source.database
    accepted: list[Compared] = []
    with _opened(config, ports or production_ports(), repairs=repair) as (source, topics):

        def change_of(stored: Stored, own: DatabaseCheckpoint) -> Rewrite:
            position = own.position.commit_lsn
            check_not_backwards(database, position, source.newest, is_secondary=False)
            state = source.restored(topics, stored)
            compared = source.compare(topics, state, own)
            accepted.append(compared)
            again = compared.again if snapshots else frozenset[TableName]()
            found, lost = source.found, compared.lost
            return accepting(topics, state, own, found, lost, again, compared.repaired)

        name = transactional_id(config.prefix, database)
        rewrite_own_record(config, topics, name, change_of)
    if not accepted:
        raise _nothing_published(config)
    return accepted[0]


@dataclass(frozen=True, slots=True)
class _Source:
    """The database as it is now.

    Attributes:
        repairs: whether to find out which tables can be repaired.
    """

    connection: Connection
    config: PublisherConfig
    found: DatabaseIdentity
    newest: Lsn | None
    repairs: bool

    def restored(self, topics: DatabaseTopics, stored: Stored) -> PublisherState:
        """Restore the state from a checkpoint, which has a record of the database.

        Raises:
            CheckpointError: a record cannot be read.
        """
        state = PublisherState.restore(topics.server, topics.database, self.found, stored)
        return cast("PublisherState", state)

    def compare(
        self, topics: DatabaseTopics, state: PublisherState, own: DatabaseCheckpoint
    ) -> Compared:
        """Compare the database with what was published.

        Args:
            own: the database's own record in the checkpoint.

        Raises:
            CheckpointLost: the checkpoint has lost its end.
        """
        check_whole(topics, own, newest_published(topics))
        instances = self._instances(state)
        lost = lost_history(self.connection, topics, state, instances)
        published = {
            name: topics.names.data(name)
            for name, record in state.records().items()
            if record.state in PUBLISHED
        }
        concerned = frozenset(lost.concerned(published))
        if not self.repairs:
            return Compared(known_identity(own), self.found, self.newest, lost, concerned)
        repairable = Repairable(self.config, topics, lost, {i.name: i for i in instances})
        reasons = {t: repairable.refusal(t, state.of(t)) for t in sorted(concerned, key=str)}
        return Compared(
            known_identity(own),
            self.found,
            self.newest,
            lost,
            concerned,
            frozenset(table for table, reason in reasons.items() if reason is None),
            {table: reason for table, reason in reasons.items() if reason is not None},
        )

    def _instances(self, state: PublisherState) -> tuple[CaptureInstance, ...]:
        config, known = self.config, KnownCatalog(by_function=state.by_function)
        return read_catalog(
            *(self.connection, config.source.database, config.message_keys, known),
            state.published_as(),
        ).instances


@contextmanager
def _opened(
    config: PublisherConfig, ports: Ports, *, repairs: bool
) -> Iterator[tuple[_Source, DatabaseTopics]]:
    """Connect to the database, and open its topics."""
    with ports.connect(config.source) as connection, open_topics(config, ports) as topics:
        found, newest = visible_identity(connection), max_lsn(connection)
        if not has_checkpoint_topic(topics, config.kafka.start_timeout_s):
            raise _nothing_published(config)
        yield _Source(connection, config, found, newest, repairs), topics


def _nothing_published(config: PublisherConfig) -> CheckpointError:
    return CheckpointError(
        f"nothing of {config.source.database} was published under prefix {config.prefix}, so there"
        " is no checkpoint to change. Fix: check publisher.prefix and publisher.source.database"
    )
