"""The clients: what the publisher uses of confluent_kafka, over the brokers of the model.

Errors are confluent_kafka's own objects, with librdkafka's codes and flags. Behaviours of the
transactional producer: INTRODUCTION.md of librdkafka, "Transactional Producer".

https://github.com/confluentinc/librdkafka/blob/master/INTRODUCTION.md
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from concurrent.futures import Future
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

from confluent_kafka import (
    OFFSET_BEGINNING,
    OFFSET_INVALID,
    KafkaError,
    KafkaException,
    TopicPartition,
)

from tests.simulation.kafka.broker import Broker, Entry, Fate, Partition, Transaction
from tests.simulation.world import World

_DOTS_OF_DATA = 3


@dataclass(slots=True)
class KafkaFaults:
    """What the next calls meet.

    Attributes:
        commits: fates of the next calls of commit_transaction: ``late`` (timed out, and not done
            yet), ``done`` (timed out, and done), ``never`` (timed out for the next 70 calls).
        amid_commit: what happens during the next commits, before the publisher gets their answers.
        stalls: how many of the next calls of flush return with records still to be delivered.
        inits: how many of the next calls of init_transactions find no coordinator.
        asks: how many of the next calls of an admin client find no leader, or no broker.
        reads: how many of the next calls of a consumer find no broker.
        registry: how many of the next calls of the registry find none.
        strays: how many of the next records follow one of another producer in their partition.
    """

    commits: list[str] = field(default_factory=list)
    amid_commit: list[Callable[[], None]] = field(default_factory=list)
    stalls: int = 0
    inits: int = 0
    asks: int = 0
    reads: int = 0
    registry: int = 0
    strays: int = 0

    @property
    def left(self) -> int:
        """How many calls have yet to meet something."""
        calls = self.stalls + self.inits + self.asks + self.reads + self.registry
        return len(self.commits) + calls


@dataclass(slots=True)
class Clients:
    """Makes clients; see tailrace_publisher.ports.KafkaClients."""

    broker: Broker
    world: World
    tick: Callable[[], None]
    faults: KafkaFaults

    def producer(self, options: Mapping[str, Any]) -> TransactionalClient:
        """A producer with a transactional id."""
        self.tick()
        return TransactionalClient(self, options)

    def consumer(self, options: Mapping[str, Any]) -> ConsumerClient:
        """A consumer that is assigned its partitions."""
        self.tick()
        return ConsumerClient(self, options)

    def admin(self, options: Mapping[str, Any]) -> AdminClient:  # noqa: ARG002 - as the port has it
        """An admin client."""
        return AdminClient(self)


def failure(
    code: int, text: str, *, fatal: bool = False, retriable: bool = False
) -> KafkaException:
    """An exception as the client raises it."""
    return KafkaException(KafkaError(code, text, fatal=fatal, retriable=retriable))


class TransactionalClient:
    """A producer: what it queues is at the brokers at once, reports come with poll and flush."""

    def __init__(self, clients: Clients, options: Mapping[str, Any]) -> None:
        self._clients = clients
        self._broker = clients.broker
        self._id = str(options["transactional.id"])
        self._timeout_us = int(options["transaction.timeout.ms"]) * 1000
        self._epoch = 0
        self._transaction: Transaction | None = None
        self._is_open = False
        self._reports: list[tuple[Callable[[Any, Any], None], Any, Any]] = []
        self._fatal: KafkaError | None = None

    def init_transactions(self, timeout: float) -> None:
        self._clients.tick()
        if self._clients.faults.inits:
            self._clients.faults.inits -= 1
            self._clients.world.advance(timeout)
            raise failure(KafkaError._TIMED_OUT, "no coordinator", retriable=True)
        self._epoch = self._broker.init_producer(self._id, self._timeout_us)
        self._clients.tick()

    def begin_transaction(self) -> None:
        self._raise_fatal()
        self._is_open = True
        self._transaction = None

    def produce(
        self,
        topic: str,
        value: Any = None,
        key: Any = None,
        partition: int = -1,
        callback: Callable[[Any, Any], None] | None = None,
        *_on_delivery_time_and_headers: Any,  # at which no reader of the model looks
    ) -> None:
        if self._fatal is not None:
            raise failure(KafkaError._FATAL, "the producer is dead")
        if not self._is_open:
            raise failure(KafkaError._STATE, "no transaction is open")
        error, offset = self._written(topic, key, value, partition)
        if callback is not None:
            self._reports.append((callback, error, SimpleNamespace(offset=lambda: offset)))

    def _written(
        self, topic: str, key: bytes | None, value: bytes | None, partition: int
    ) -> tuple[KafkaError | None, int | None]:
        if self._fatal is None and self._broker.is_fenced(self._id, self._epoch):
            self._die()
        if self._fatal is not None:
            return KafkaError(KafkaError._FATAL, "the producer is dead", fatal=False), None
        found = self._broker.topics.get(topic)
        if found is None:
            return KafkaError(KafkaError.UNKNOWN_TOPIC_OR_PART, "no such topic"), None
        if self._transaction is None:
            self._transaction = self._broker.begin(self._id)
        written = found.partitions[partition]
        is_between = written in self._transaction.unmarked and topic.count(".") == _DOTS_OF_DATA
        if self._clients.faults.strays and is_between:
            self._clients.faults.strays -= 1
            self._broker.stray(written)
        return None, written.append(key, value, self._transaction)

    def poll(self, timeout: float) -> int:  # noqa: ARG002 - as the client has it
        self._clients.tick()
        return self._serve()

    def flush(self, timeout: float) -> int:
        self._clients.tick()
        if self._clients.faults.stalls and self._reports:
            self._clients.faults.stalls -= 1
            self._clients.world.advance(timeout)
            return len(self._reports)
        self._serve()
        return 0

    def commit_transaction(self, timeout: float) -> None:
        self._clients.tick()
        self._raise_fatal()
        if self._broker.is_fenced(self._id, self._epoch):
            self._die()
            self._raise_fatal()
        fault = self._clients.faults.commits.pop(0) if self._clients.faults.commits else ""
        if fault in {"", "done"}:
            if self._transaction is not None:
                self._broker.end(self._id, Fate.COMMITTED)
            self._clients.tick()  # decided; the answer may be lost, or the publisher
            for happens in self._clients.faults.amid_commit:
                happens()
            self._clients.faults.amid_commit.clear()
        if fault:
            self._clients.world.advance(timeout)
            raise failure(KafkaError._TIMED_OUT, "no answer in time", retriable=True)
        self._is_open = False
        self._transaction = None

    def abort_transaction(self, timeout: float) -> None:  # noqa: ARG002
        self._clients.tick()
        self._raise_fatal()
        if self._broker.is_fenced(self._id, self._epoch):
            self._die()
            self._raise_fatal()
        if self._transaction is not None:
            self._broker.end(self._id, Fate.ABORTED)
        self._is_open = False
        self._transaction = None

    def purge(self) -> None:
        self._reports.clear()

    def _serve(self) -> int:
        served, self._reports = self._reports, []
        for callback, error, message in served:
            callback(error, message)
        return len(served)

    def _die(self) -> None:
        self._fatal = KafkaError(
            KafkaError._FENCED, "fenced by a newer producer, or aborted", fatal=True
        )

    def _raise_fatal(self) -> None:
        if self._fatal is not None:
            raise KafkaException(self._fatal)


class Message:
    """A record that was read, or an event such as the end of the partition."""

    def __init__(self, entry: Entry | None, offset: int, error: KafkaError | None = None) -> None:
        self._entry = entry
        self._offset = offset
        self._error = error

    def error(self) -> KafkaError | None:
        return self._error

    def offset(self) -> int:
        return self._offset

    def key(self) -> bytes | None:
        return None if self._entry is None else self._entry.key

    def value(self) -> bytes | None:
        return None if self._entry is None else self._entry.value


class ConsumerClient:
    """A consumer of one partition."""

    def __init__(self, clients: Clients, options: Mapping[str, Any]) -> None:
        self._clients = clients
        self._committed_only = options["isolation.level"] == "read_committed"
        self._tells_end = bool(options.get("enable.partition.eof"))
        self._reset = options["auto.offset.reset"]
        self._partition: Partition | None = None
        self._next = 0
        self._has_told_end = False

    def assign(self, partitions: list[TopicPartition]) -> None:
        (wanted,) = partitions
        topic = self._clients.broker.topics.get(wanted.topic)
        self._partition = None if topic is None else topic.partitions[wanted.partition]
        begins = wanted.offset == OFFSET_BEGINNING and self._partition is not None
        self._next = self._partition.log_start if begins and self._partition else wanted.offset

    def consume(self, num_messages: int, timeout: float) -> list[Message]:
        self._clients.tick()
        self._clients.broker.expire()
        if self._clients.faults.reads:
            self._clients.faults.reads -= 1
            self._clients.world.advance(timeout)
            return [Message(None, -1, KafkaError(KafkaError._TRANSPORT, "no broker"))]
        partition = self._partition
        if partition is None:
            return []
        if not partition.log_start <= self._next <= partition.end:
            if self._reset != "earliest":
                # Taken between its look at the beginning and its read, or an end that was lost.
                text = "offset out of range"
                return [Message(None, -1, KafkaError(KafkaError._AUTO_OFFSET_RESET, text))]
            self._next = partition.log_start
        found: list[Message] = []
        end = partition.stable_end() if self._committed_only else partition.end
        while self._next < end and len(found) < num_messages:
            entry = partition.entries[self._next]
            self._next += 1
            self._has_told_end = False
            if self._is_seen(partition, entry):
                found.append(Message(entry, entry.offset))
        if not found:
            self._clients.world.advance(timeout)
            if self._tells_end and not self._has_told_end:
                self._has_told_end = True
                return [Message(None, self._next, KafkaError(KafkaError._PARTITION_EOF, "end"))]
        return found

    def _is_seen(self, partition: Partition, entry: Entry) -> bool:
        if entry.is_marker or entry.offset in partition.compacted or entry.transaction is None:
            return False
        return not self._committed_only or entry.transaction.fate is Fate.COMMITTED

    def get_watermark_offsets(
        self,
        partition: TopicPartition,
        timeout: float,  # noqa: ARG002
    ) -> tuple[int, int] | None:
        self._clients.tick()
        found = self._clients.broker.topics[partition.topic].partitions[partition.partition]
        return found.log_start, found.stable_end() if self._committed_only else found.end

    def close(self) -> None:
        self._partition = None


class AdminClient:
    """An admin client whose futures are done."""

    def __init__(self, clients: Clients) -> None:
        self._clients = clients
        self._broker = clients.broker

    def list_topics(self, *, timeout: float) -> Any:
        failed = self._failure(timeout)
        if failed is not None:
            raise failed
        topics = {
            name: SimpleNamespace(
                partitions={
                    partition.number: SimpleNamespace(leader=1, replicas=[1, 2, 3])
                    for partition in topic.partitions
                }
            )
            for name, topic in self._broker.topics.items()
        }
        return SimpleNamespace(topics=topics, brokers={1: None, 2: None, 3: None})

    def describe_topics(self, topics: Any, *, request_timeout: float) -> dict[str, Future[Any]]:
        failed = self._failure(request_timeout)
        return {
            name: _done(
                failed
                if failed is not None or name in self._broker.topics
                else failure(KafkaError.UNKNOWN_TOPIC_OR_PART, "no such topic")
            )
            for name in topics.topic_names
        }

    def create_topics(
        self, new_topics: list[Any], *, request_timeout: float
    ) -> dict[str, Future[Any]]:
        failed = self._failure(request_timeout)
        futures = {}
        for new in new_topics:
            if failed is not None:
                futures[new.topic] = _done(failed)
                continue
            if new.topic in self._broker.topics:
                error = failure(KafkaError.TOPIC_ALREADY_EXISTS, "it is there")
                futures[new.topic] = _done(error)
                continue
            self._broker.create(new.topic, new.num_partitions, dict(new.config))
            futures[new.topic] = _done(None)
        return futures

    def create_partitions(
        self, new_partitions: list[Any], *, request_timeout: float
    ) -> dict[str, Future[Any]]:
        failed = self._failure(request_timeout)
        if failed is None:
            for new in new_partitions:
                self._broker.grow(new.topic, new.new_total_count)
        return {new.topic: _done(failed) for new in new_partitions}

    def describe_configs(
        self, resources: list[Any], *, request_timeout: float
    ) -> dict[Any, Future[Any]]:
        # A broker that has just started knows no topic for a moment.
        is_new = self._clients.faults.asks % 2 == 0
        failed = self._failure(request_timeout)
        if failed is not None and is_new:
            failed = failure(KafkaError.UNKNOWN_TOPIC_OR_PART, "no such topic")
        found = {}
        for resource in resources:
            if failed is not None:
                found[resource] = _done(failed)
                continue
            topic = self._broker.topics.get(resource.name)
            settings = (
                topic.settings
                if topic is not None
                else {"default.replication.factor": "3", "min.insync.replicas": "2"}
            )
            found[resource] = _done(
                {name: SimpleNamespace(name=name, value=value) for name, value in settings.items()}
            )
        return found

    def list_consumer_group_offsets(
        self, groups: list[Any], *, request_timeout: float
    ) -> dict[str, Future[Any]]:
        self._clients.tick()
        failed = self._failure(request_timeout)
        (wanted,) = groups
        found = [
            TopicPartition(
                place.topic,
                place.partition,
                self._broker.groups.get(
                    (wanted.group_id, place.topic, place.partition), OFFSET_INVALID
                ),
            )
            for place in wanted.topic_partitions
        ]
        return {wanted.group_id: _done(failed or SimpleNamespace(topic_partitions=found))}

    def list_offsets(
        self,
        partitions: dict[Any, Any],
        *,
        isolation_level: Any,  # noqa: ARG002
        request_timeout: float,  # noqa: ARG002
    ) -> dict[Any, Future[Any]]:
        self._clients.tick()
        futures: dict[Any, Future[Any]] = {}
        for wanted in partitions:
            topic = self._broker.topics.get(wanted.topic)
            if self._clients.faults.asks or topic is None:
                self._clients.faults.asks = max(0, self._clients.faults.asks - 1)
                futures[wanted] = _done(
                    failure(KafkaError.NOT_LEADER_FOR_PARTITION, "the leader moved", retriable=True)
                )
                continue
            futures[wanted] = _done(SimpleNamespace(offset=topic.partitions[wanted.partition].end))
        return futures

    def _failure(self, timeout: float) -> KafkaException | None:
        """What a request meets; only list_topics raises it, the others put it into futures."""
        self._clients.tick()
        if not self._clients.faults.asks:
            return None
        self._clients.faults.asks -= 1
        self._clients.world.advance(timeout)
        return failure(KafkaError._TRANSPORT, "no broker", retriable=True)


def _done(result: Any) -> Future[Any]:
    future: Future[Any] = Future()
    if isinstance(result, KafkaException):
        future.set_exception(result)
    else:
        future.set_result(result)
    return future
