"""The ports to the outside world: SQL Server, Kafka, the registry, time, threads.

Everything that the publisher does outside its own memory goes through an object of these shapes. So
a model of the world can replace the real one. ``daemon/production.py`` gathers the objects of
production. The shapes hold no more than what the publisher uses.

Errors are part of a port. A connection raises our typed ``SourceError``, the Kafka clients raise
``confluent_kafka.KafkaException``. A registry raises
``tailrace_service.registry.client.RegistryError``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass
from typing import Any, Protocol

from tailrace_publisher.options.source import SourceConfig
from tailrace_service.closing import Closing
from tailrace_service.registry.client import RegisteredSchema
from tailrace_service.registry.options import RegistryConfig


class Connection(Closing, Protocol):
    """A connection to SQL Server, for one thread at a time."""

    @property
    def queries(self) -> int:
        """Number of statements sent so far."""

    def query(self, sql: str, *parameters: Any) -> list[Any]:
        """Return the rows of a statement's only result set; columns by place and by name.

        Raises:
            SourceError: the typed reason of the failure.
        """

    def query_sets(self, sql: str, *parameters: Any) -> list[list[Any]]:
        """Return the rows of every result set of a batch.

        Raises:
            SourceError: the typed reason of the failure.
        """

    def query_together(self, statements: Sequence[str], *parameters: Any) -> list[list[Any]]:
        """Return the rows of each of several statements, from one round trip.

        Args:
            statements: each has one result set, and first declares its parameters. They are the
                same for all.

        Raises:
            SourceError: the typed reason of the failure.
        """

    def query_within(
        self, sql: str, *parameters: Any, size_of: Callable[[Any], int], at_most: int
    ) -> tuple[list[list[Any]], bool]:
        """Return the rows of a batch's result sets, up to a number of bytes.

        The row that reaches the limit is the last one.

        Returns:
            The result sets, and whether more rows may follow.

        Raises:
            SourceError: the typed reason of the failure.
        """

    def cancel(self) -> None:
        """Cancel the running statement, if any; called by another thread."""


class Registry(Closing, Protocol):
    """A schema registry, like :class:`tailrace_service.registry.client.SchemaRegistry`."""

    def register(self, subject: str, schema: dict[str, Any]) -> int:
        """Register a schema under a subject; return its id."""

    def set_compatibility(self, subject: str, mode: str) -> bool:
        """Set the compatibility of a subject's new versions; return False if it is unknown."""

    def schema_by_id(self, schema_id: int) -> dict[str, Any]:
        """Return the schema with that id."""

    def versions(self, subject: str) -> list[RegisteredSchema]:
        """Return all versions of a subject, oldest first; empty if the subject does not exist."""

    def subjects(self) -> list[str]:
        """Return all subjects."""


class KafkaProducer(Protocol):
    """The used part of a ``confluent_kafka.Producer`` with a transactional id."""

    def init_transactions(self, timeout: float, /) -> None: ...  # noqa: D102 - the client's own
    def begin_transaction(self) -> None: ...  # noqa: D102
    def commit_transaction(self, timeout: float, /) -> None: ...  # noqa: D102
    def abort_transaction(self, timeout: float, /) -> None: ...  # noqa: D102
    def produce(  # noqa: D102
        self,
        topic: str,
        value: Any = None,
        key: Any = None,
        partition: int = -1,
        callback: Any = None,
        on_delivery: Any = None,
        timestamp: int = 0,
        headers: Any = None,
        /,
    ) -> None: ...
    def poll(self, timeout: float, /) -> int: ...  # noqa: D102
    def flush(self, timeout: float, /) -> int: ...  # noqa: D102
    def purge(self) -> None: ...  # noqa: D102


class KafkaConsumer(Protocol):
    """The used part of a ``confluent_kafka.Consumer`` with assigned partitions, without a group."""

    def assign(self, partitions: list[Any], /) -> None: ...  # noqa: D102 - the client's own
    def consume(self, num_messages: int, timeout: float, /) -> list[Any]: ...  # noqa: D102
    def get_watermark_offsets(  # noqa: D102
        self, partition: Any, timeout: float, /
    ) -> tuple[int, int] | None: ...
    def close(self) -> None: ...  # noqa: D102


class KafkaAdmin(Protocol):
    """The used part of a ``confluent_kafka.admin.AdminClient``, with the client's futures."""

    def list_topics(self, *, timeout: float) -> Any: ...  # noqa: D102 - the client's own
    def describe_topics(self, topics: Any, /, *, request_timeout: float) -> Any: ...  # noqa: D102
    def create_topics(  # noqa: D102
        self, new_topics: list[Any], /, *, request_timeout: float
    ) -> dict[str, Any]: ...
    def describe_configs(  # noqa: D102
        self, resources: list[Any], /, *, request_timeout: float
    ) -> dict[Any, Any]: ...
    def list_consumer_group_offsets(  # noqa: D102
        self, groups: Any, /, *, request_timeout: float
    ) -> dict[str, Any]: ...
    def list_offsets(  # noqa: D102
        self, partitions: dict[Any, Any], /, *, isolation_level: Any, request_timeout: float
    ) -> dict[Any, Any]: ...


class KafkaClients(Protocol):
    """Creates clients of Kafka from librdkafka options."""

    def producer(self, options: Mapping[str, Any]) -> KafkaProducer:
        """Create a producer."""

    def consumer(self, options: Mapping[str, Any]) -> KafkaConsumer:
        """Create a consumer."""

    def admin(self, options: Mapping[str, Any]) -> KafkaAdmin:
        """Create an admin client."""


class Stop(Protocol):
    """Set to end the publisher between two steps, like a ``threading.Event``."""

    def is_set(self) -> bool:
        """Return whether it is set."""

    def wait(self, timeout: float) -> bool:
        """Wait until it is set, at most that many seconds."""


class Clock(Protocol):
    """Time, and waiting for it."""

    def now_ms(self) -> int:
        """Return milliseconds UTC since 1970."""

    def monotonic(self) -> float:
        """Return seconds of a clock that is never set back, from any start."""

    def wait(self, seconds: float, stop: Stop | None = None) -> None:
        """Let time pass, at most until the stop is set."""


class GroupMember(Protocol):
    """The used part of a ``confluent_kafka.Consumer`` that joins a group."""

    def subscribe(  # noqa: D102 - the client's own
        self, topics: list[str], *, on_assign: Any, on_revoke: Any, on_lost: Any
    ) -> None: ...
    def poll(self, timeout: float, /) -> Any: ...  # noqa: D102
    def incremental_assign(self, partitions: list[Any], /) -> None: ...  # noqa: D102
    def pause(self, partitions: list[Any], /) -> None: ...  # noqa: D102
    def incremental_unassign(self, partitions: list[Any], /) -> None: ...  # noqa: D102
    def close(self) -> None: ...  # noqa: D102


def _no_group(_: Mapping[str, Any]) -> GroupMember:
    raise NotImplementedError("these ports join no consumer group. Fix: set fleet.join to false")


def _no_blocks(_: SourceConfig) -> None:
    """Have everything read row by row."""


@dataclass(frozen=True, slots=True)
class Ports:
    """The outside world.

    Attributes:
        connect: opens a connection to the source; raises SourceError.
        executor: returns an executor for a purpose, by name. It has one thread, except for
            `registry` and `registry-beside`.
        connect_blocks: opens a reader of blocks (``source.page_readers``). None if blocks cannot be
            read.
        join: creates a client that joins a consumer group, from librdkafka options.
    """

    connect: Callable[[SourceConfig], Connection]
    kafka: KafkaClients
    registry: Callable[[RegistryConfig], Registry]
    clock: Clock
    executor: Callable[[str], Executor]
    connect_blocks: Callable[[SourceConfig], Any] = _no_blocks
    join: Callable[[Mapping[str, Any]], GroupMember] = _no_group


@dataclass(frozen=True, slots=True)
class KafkaAccess:
    """The brokers, and how to connect to them.

    Attributes:
        options: addresses of the brokers, security, and the user's further librdkafka options.
        clock: for deadlines and pauses.
    """

    clients: KafkaClients
    options: Mapping[str, Any]
    clock: Clock

    def admin(self) -> KafkaAdmin:
        """Create an admin client of these brokers."""
        return self.clients.admin(self.options)
