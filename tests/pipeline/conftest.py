"""What the pipeline tests share: a database, topics of their own, and what is in them."""

from __future__ import annotations

import uuid
from collections import Counter
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass, field
from typing import Any

import pytest
from confluent_kafka import OFFSET_BEGINNING, Consumer, TopicPartition

from emulator.tests.fix_sqlserver import SourceServer
from tailrace.reading.committed import read_all
from tailrace.reading.record_decoder import RecordDecoder
from tailrace.reading.topics import Event, consumer_of, existing_data_topics
from tailrace_publisher.checkpoint.partition import partition_reader
from tailrace_publisher.daemon.adapters.production import kafka_at
from tailrace_publisher.options.publisher_config import PublisherConfig
from tailrace_schemas.position.change_position import ChangePosition
from tailrace_schemas.position.lsn import Lsn
from tailrace_schemas.topics.topic_names import TableName, TopicNames
from tailrace_service.registry.client import SchemaRegistry
from tests.pipeline.source_database import SourceDatabase


@dataclass
class Topics:
    """The topics under a prefix of the test's own, as a read_committed consumer sees them."""

    bootstrap: str
    registry_url: str
    prefix: str
    names_by: Callable[[str], TopicNames] = TopicNames
    _consumer: Consumer | None = None
    _decoder: RecordDecoder | None = None
    _records: list[dict[str, Any]] = field(default_factory=list)

    @property
    def names(self) -> TopicNames:
        return self.names_by(self.prefix)

    def events(self, database: str, table: str) -> list[Event]:
        """Events and tombstones of dbo.<table>."""
        topic = self.names.data(TableName(database, "dbo", table))
        partitions = existing_data_topics(self.bootstrap, self.names)
        if topic not in partitions:
            return []
        with SchemaRegistry(self.registry_url) as registry:
            return list(read_all(self.bootstrap, registry, {topic: partitions[topic]}))

    def changes(self, database: str, table: str) -> list[Event]:
        """Events that are neither tombstones nor snapshot rows."""
        return [
            event
            for event in self.events(database, table)
            if event.envelope is not None and event.as_envelope["op"] != "r"
        ]

    def snapshot(self, database: str, table: str) -> list[Event]:
        """Events of the initial snapshot."""
        return [
            event
            for event in self.events(database, table)
            if event.envelope is not None and event.as_envelope["op"] == "r"
        ]

    def positions(self, database: str, table: str) -> Counter[ChangePosition]:
        """How often each position is there."""
        return Counter(event.position for event in self.changes(database, table))

    def state(self, database: str, table: str, key: str) -> dict[Any, dict[str, Any]]:
        """What a subscriber who applies the events in offset order holds."""
        rows: dict[Any, dict[str, Any]] = {}
        for event in self.events(database, table):
            if event.envelope is None:
                continue
            if event.as_envelope["op"] == "d":
                rows.pop(event.as_envelope["before"][key], None)
            else:
                rows[event.as_envelope["after"][key]] = event.as_envelope["after"]
        return rows

    def progress(self) -> list[dict[str, Any]]:
        """The progress records so far; each call reads on where the one before ended."""
        if self._consumer is None:
            self._consumer = consumer_of(self.bootstrap)
            self._decoder = RecordDecoder(SchemaRegistry(self.registry_url))
            self._consumer.assign([TopicPartition(self.names.progress, 0, OFFSET_BEGINNING)])
        assert self._decoder is not None
        while messages := self._consumer.consume(100, 0.03):
            for message in messages:
                if message.error() is None:
                    self._records.append(self._decoder.decode(message.value() or b"")[1])
        return self._records

    def beside(self, topic: str) -> list[dict[str, Any]]:
        """The committed records of a topic beside the data, to its end."""
        kafka = kafka_at(self.bootstrap)
        with SchemaRegistry(self.registry_url) as registry, partition_reader(kafka, topic) as read:
            decoder = RecordDecoder(registry)
            return [decoder.decode(message.value())[1] for message in read.read_all(30)]

    def close(self) -> None:
        """Close the consumer."""
        if self._consumer is not None:
            self._consumer.close()

    def through(self) -> Lsn:
        """The closed LSN; ZERO before there is any."""
        closed = [record["through_lsn"] for record in self.progress() if record["closed"]]
        return Lsn.parse(closed[-1]) if closed else Lsn.ZERO


@dataclass
class Pipe:
    """A source database, topics, and the options of a publisher between them."""

    source: SourceDatabase
    topics: Topics
    further: dict[str, Any] = field(default_factory=dict)

    def options(self, **further: Any) -> dict[str, Any]:
        server = self.source.server
        return {
            "source": {
                "host": server.host,
                "port": server.port,
                "database": self.source.name,
                "user": server.user,
                "password": server.password,
                "trust_server_certificate": True,
                "login_timeout_s": 5,
            },
            "kafka": {"bootstrap": self.topics.bootstrap, "partitions": 2},
            "registry": {"url": self.topics.registry_url},
            "prefix": self.topics.prefix,
            "poll_interval_ms": 20,
            "heartbeat_s": 0.3,
            "retry_backoff_max_s": 0.5,
            **self.further,
            **further,
        }

    def config(self, **further: Any) -> PublisherConfig:
        return PublisherConfig.load(self.options(**further))

    def is_caught_up(self, *, scan: bool = True, gone: Collection[str] = ()) -> bool:
        """Whether everything captured is out and no snapshot is pending.

        Args:
            scan: whether the capture process scans first.
            gone: tables that are not captured any more: they are named, and no others.
        """
        if scan:
            self.source.scan()
        records = self.topics.progress()
        return bool(
            records
            and records[-1]["closed"]
            and set(records[-1]["snapshotting"]) == {self.topic(table) for table in gone}
            and Lsn.parse(records[-1]["through_lsn"]) >= self.source.max_lsn()
        )

    def topic(self, table: str) -> str:
        """Name of the topic of a table in dbo."""
        return self.topics.names.data(TableName(self.source.name, "dbo", table))

    def assert_exactly_once(self, table: str, instance: str | None = None) -> None:
        """Every change row is in its topic once, nothing else is."""
        published = self.topics.positions(self.source.name, table)
        assert published == self.source.positions(instance or f"dbo_{table}")


@pytest.fixture
def pipe(source_server: SourceServer, kafka: str, registry: str) -> Iterator[Pipe]:
    """A database with CDC enabled and topics that no other test uses."""
    suffix = uuid.uuid4().hex[:8]
    source = SourceDatabase(source_server, f"db_{suffix}")
    topics = Topics(kafka, registry, f"p{suffix}")
    yield Pipe(source, topics)
    topics.close()
