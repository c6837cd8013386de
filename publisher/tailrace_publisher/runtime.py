"""What travels everywhere: the options, the outside world, the counts, the stop, the hooks."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from enum import StrEnum

from tailrace_publisher.metrics.publisher_metrics import Metrics
from tailrace_publisher.options.publisher_config import PublisherConfig
from tailrace_publisher.ports import Clock, KafkaAccess, Ports, Registry, Stop
from tailrace_schemas.records.shards import Shard
from tailrace_schemas.topics.topic_names import TableName, TopicNames
from tailrace_service.tracing.traces import Traces


class Step(StrEnum):
    """What a publisher is about to do or has done, for tests that stop it there."""

    WINDOW = "window"
    """A window with commits is planned."""
    PAGE = "page"
    """A page of change rows was read."""
    SENT = "sent"
    """Rows were sent; nothing of them is committed yet."""
    BEFORE_COMMIT = "before_commit"
    """The state that a Kafka transaction makes true is written down, and will be committed."""
    COMMITTED = "committed"
    """A Kafka transaction with rows is committed."""
    HEARTBEAT = "heartbeat"
    """A Kafka transaction without rows is committed."""
    SNAPSHOT_READ = "snapshot_read"
    """Chunks of snapshots were read since the last look."""


OnStep = Callable[[Step], None]


@dataclass(frozen=True, slots=True)
class Runtime:
    """What every part of a publisher may need.

    Attributes:
        config: the options.
        ports: the outside world.
        metrics: counts.
        stop: set to end it between two steps.
        on_step: called at each step, for tests that stop the process there.
        shard: which of the database's tables are published.
        traces: takes spans; None where none are wanted.
    """

    config: PublisherConfig
    ports: Ports
    metrics: Metrics
    stop: Stop
    on_step: OnStep
    shard: Shard = field(default_factory=Shard)
    traces: Traces | None = None

    @property
    def clock(self) -> Clock:
        """Time."""
        return self.ports.clock

    def has(self, table: TableName) -> bool:
        """Whether a table is of this shard; one that can have no topic is of the first."""
        if self.shard.is_whole:
            return True
        try:
            return self.shard.has(self.config.topics.data(table))
        except ValueError:
            return self.shard.number == 0

    def selects(self, table: TableName) -> bool:
        """Whether a table is published here: the options select it, and it is of this shard."""
        return self.config.tables.selects(table) and self.has(table)


@dataclass(frozen=True, slots=True)
class DatabaseTopics:
    """The topics of a prefix, as they are read and written for one database.

    Attributes:
        kafka: the brokers.
        registry: knows the schemas of the records.
        names: of the topics under the prefix.
        server: logical name of the source server.
        database: the source database.
        shard: whose checkpoint and progress are meant.
    """

    kafka: KafkaAccess
    registry: Registry
    names: TopicNames
    server: str
    database: str
    shard: Shard = field(default_factory=Shard)

    @property
    def partition(self) -> int:
        """That of the shard in the checkpoint and progress topics."""
        return self.shard.number


def kafka_access(config: PublisherConfig, ports: Ports) -> KafkaAccess:
    """The brokers of a configuration."""
    return KafkaAccess(ports.kafka, config.kafka.connection(), ports.clock)


def database_topics(
    config: PublisherConfig, ports: Ports, registry: Registry, shard: Shard | None = None
) -> DatabaseTopics:
    """The topics of a configuration; of all tables, or of a shard."""
    return DatabaseTopics(
        kafka_access(config, ports),
        registry,
        config.topics,
        config.server_name,
        config.source.database,
        shard or Shard(),
    )
