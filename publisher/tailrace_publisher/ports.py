"""The ports behind which the outside world stands: SQL Server, Kafka, the registry, time, threads.

Everything that the publisher does outside its own memory goes through an object of these shapes,
so a model of the world can stand in their place. What production puts there is gathered in
``daemon/production.py``. The shapes hold no more than what the publisher uses.

Errors are part of a port: a connection raises our typed ``SourceError``, the Kafka clients raise
``confluent_kafka.KafkaException``, a registry ``tailrace_service.registry.client.RegistryError``.
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
        """Rows of the one result set of a statement; columns by place and by name.

        Raises:
            SourceError: the typed reason of the failure.
        """

    def query_sets(self, sql: str, *parameters: Any) -> list[list[Any]]:
        """Rows of every result set of a batch.

        Raises:
            SourceError: the typed reason of the failure.
        """

    def query_together(self, statements: Sequence[str], *parameters: Any) -> list[list[Any]]:
        """Rows of each of some statements, in one round trip.

        Args:
            statements: each has one result set and begins by declaring its parameters, which are
                the same for all.
            parameters: the values.

        Raises:
            SourceError: the typed reason of the failure.
        """

    def query_within(
        self, sql: str, *parameters: Any, size_of: Callable[[Any], int], at_most: int
    ) -> tuple[list[list[Any]], bool]:
        """Rows of the result sets of a batch, up to so many bytes.

        The row that reaches the bound is the last one.

        Returns:
            The result sets, and whether there may be more than these.

        Raises:
            SourceError: the typed reason of the failure.
        """

    def cancel(self) -> None:
        """End the statement that runs now, if one does; for another thread."""


class Registry(Closing, Protocol):
    """A schema registry, as :class:`tailrace_service.registry.client.SchemaRegistry` is one."""

    def register(self, subject: str, schema: dict[str, Any]) -> int:
        """Register a schema under a subject; gives its id."""

    def set_compatibility(self, subject: str, mode: str) -> bool:
        """Say what new versions of a subject must be; False where it is not known yet."""

    def schema_by_id(self, schema_id: int) -> dict[str, Any]:
        """The schema with that id."""

    def versions(self, subject: str) -> list[RegisteredSchema]:
        """All versions of a subject, oldest first; empty when there is no such subject."""

    def subjects(self) -> list[str]:
        """All subjects."""


class KafkaProducer(Protocol):
    """What is used of a ``confluent_kafka.Producer`` with a transactional id."""

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
    """What is used of a ``confluent_kafka.Consumer``: partitions are assigned, no group joined."""

    def assign(self, partitions: list[Any], /) -> None: ...  # noqa: D102 - the client's own
    def consume(self, num_messages: int, timeout: float, /) -> list[Any]: ...  # noqa: D102
    def get_watermark_offsets(  # noqa: D102
        self, partition: Any, timeout: float, /
    ) -> tuple[int, int] | None: ...
    def close(self) -> None: ...  # noqa: D102


class KafkaAdmin(Protocol):
    """What is used of a ``confluent_kafka.admin.AdminClient``; futures, as the client's."""

    def list_topics(self, *, timeout: float) -> Any: ...  # noqa: D102 - the client's own
    def describe_topics(self, topics: Any, /, *, request_timeout: float) -> Any: ...  # noqa: D102
    def create_topics(  # noqa: D102
        self, new_topics: list[Any], /, *, request_timeout: float
    ) -> dict[str, Any]: ...
    def describe_configs(  # noqa: D102
        self, resources: list[Any], /, *, request_timeout: float
    ) -> dict[Any, Any]: ...
    def list_offsets(  # noqa: D102
        self, partitions: dict[Any, Any], /, *, isolation_level: Any, request_timeout: float
    ) -> dict[Any, Any]: ...


class KafkaClients(Protocol):
    """Makes clients of Kafka from librdkafka options."""

    def producer(self, options: Mapping[str, Any]) -> KafkaProducer:
        """A producer."""

    def consumer(self, options: Mapping[str, Any]) -> KafkaConsumer:
        """A consumer."""

    def admin(self, options: Mapping[str, Any]) -> KafkaAdmin:
        """An admin client."""


class Stop(Protocol):
    """Set by whoever wants the publisher to end between two steps; ``threading.Event`` is one."""

    def is_set(self) -> bool:
        """Whether it is set."""

    def wait(self, timeout: float) -> bool:
        """Wait until it is set, at most that many seconds."""


class Clock(Protocol):
    """Time, and waiting for it."""

    def now_ms(self) -> int:
        """Milliseconds UTC since 1970."""

    def monotonic(self) -> float:
        """Seconds of a clock that only goes forward, of any beginning."""

    def wait(self, seconds: float, stop: Stop | None = None) -> None:
        """Let time pass; less when the stop is set before."""


class GroupMember(Protocol):
    """What is used of a ``confluent_kafka.Consumer`` that joins a group."""

    def subscribe(  # noqa: D102 - the client's own
        self, topics: list[str], *, on_assign: Any, on_revoke: Any, on_lost: Any
    ) -> None: ...
    def poll(self, timeout: float, /) -> Any: ...  # noqa: D102
    def incremental_assign(self, partitions: list[Any], /) -> None: ...  # noqa: D102
    def incremental_unassign(self, partitions: list[Any], /) -> None: ...  # noqa: D102
    def close(self) -> None: ...  # noqa: D102


def _no_group(_: Mapping[str, Any]) -> GroupMember:
    raise NotImplementedError("these ports join no consumer group: set shards.count to 1")


def _no_blocks(_: SourceConfig) -> None:
    """Everything is read row by row."""


@dataclass(frozen=True, slots=True)
class Ports:
    """The outside world.

    Attributes:
        connect: opens a connection to the source; raises SourceError.
        kafka: makes clients of Kafka.
        registry: opens a client of the schema registry.
        clock: time.
        executor: an executor for a purpose, by name: with one thread, but for
            "registry" and "registry-beside".
        connect_blocks: makes a reader of blocks (``source.page_readers``), or None where there can
            be none.
        join: makes a client that joins a consumer group, from librdkafka options.
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
    """Some brokers and how to be let in.

    Attributes:
        clients: makes the clients.
        options: where the brokers are, security, and the user's further librdkafka options.
        clock: time, for deadlines and pauses.
    """

    clients: KafkaClients
    options: Mapping[str, Any]
    clock: Clock

    def admin(self) -> KafkaAdmin:
        """A new admin client of these brokers."""
        return self.clients.admin(self.options)
