"""What every part may need: options, outside world, metrics, stop, hooks."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum

from tailrace_publisher.metrics.publisher_metrics import Metrics
from tailrace_publisher.options.publisher_config import PublisherConfig
from tailrace_publisher.ports import Clock, KafkaAccess, Ports, Registry, Stop
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
    """The state after a Kafka transaction is prepared; its commit follows."""
    COMMITTED = "committed"
    """A Kafka transaction with rows is committed."""
    HEARTBEAT = "heartbeat"
    """A Kafka transaction without rows is committed."""
    SNAPSHOT_READ = "snapshot_read"
    """Chunks of snapshots were read since the last check."""
    ROTATED = "rotated"
    """A capture instance was created or dropped; nothing that follows from it has happened."""


OnStep = Callable[[Step], None]


@dataclass(frozen=True, slots=True)
class Runtime:
    """What every part of a publisher may need.

    Attributes:
        stop: set to end it between two steps.
        on_step: called at each step, for tests.
        traces: records spans; None without tracing.
    """

    config: PublisherConfig
    ports: Ports
    metrics: Metrics
    stop: Stop
    on_step: OnStep
    traces: Traces | None = None

    @property
    def clock(self) -> Clock:
        """The clock of the ports."""
        return self.ports.clock

    def selects(self, table: TableName) -> bool:
        """Return whether the options select a table."""
        return self.config.tables.selects(table)


@dataclass(frozen=True, slots=True)
class DatabaseTopics:
    """The topics of a prefix, as they are read and written for one database.

    Attributes:
        registry: has the schemas of the records.
        server: logical name of the source server.
    """

    kafka: KafkaAccess
    registry: Registry
    names: TopicNames
    server: str
    database: str


def kafka_access(config: PublisherConfig, ports: Ports) -> KafkaAccess:
    """Return the brokers of a configuration."""
    return KafkaAccess(ports.kafka, config.kafka.connection(), ports.clock)


def database_topics(config: PublisherConfig, ports: Ports, registry: Registry) -> DatabaseTopics:
    """Return the topics of a configuration."""
    return DatabaseTopics(
        kafka_access(config, ports),
        registry,
        config.topics,
        config.server_name,
        config.source.database,
    )
