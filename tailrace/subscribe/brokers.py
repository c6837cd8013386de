"""The brokers and the registry of a feed: what exists, and what a failure means."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Final

from confluent_kafka import Consumer, KafkaException

from tailrace.reading.table_names import parse_table
from tailrace.subscribe.errors import (
    BrokersRefused,
    BrokersUnavailable,
    DividedIntoShards,
    NothingPublished,
    UnknownTable,
)
from tailrace.subscribe.feed import FIXED, Feed
from tailrace_schemas.topics.topic_names import TableName, meant_by, told_apart
from tailrace_service.registry.client import SchemaRegistry

_REFUSALS: Final = frozenset(
    {
        "TOPIC_AUTHORIZATION_FAILED",
        "GROUP_AUTHORIZATION_FAILED",
        "CLUSTER_AUTHORIZATION_FAILED",
        "SASL_AUTHENTICATION_FAILED",
        "_AUTHENTICATION",
        "_INVALID_ARG",
        "_SSL",
        "UNKNOWN_TOPIC_OR_PART",
        "_UNKNOWN_TOPIC",
        "_UNKNOWN_PARTITION",
    }
)


class Brokers:
    """Where a feed is, as the client sees it."""

    def __init__(self, feed: Feed) -> None:
        self.feed = feed
        self.names = feed.names
        self._at = feed.bootstrap

    def open_registry(self) -> SchemaRegistry:
        """The client of the registry."""
        return (
            SchemaRegistry(self.feed.registry)
            if isinstance(self.feed.registry, str)
            else self.feed.registry
        )

    def consumer(self, group: str | None, memory_bytes: int) -> Consumer:
        """A consumer that sees committed records only.

        Raises:
            BrokersRefused: librdkafka does not know an option.
        """
        options = {
            "fetch.wait.max.ms": 20,
            "queued.max.messages.kbytes": max(memory_bytes // 4096, 1),
            "log_level": 2,  # what fails is raised; librdkafka would repeat it in its log
            **self.feed.kafka,
            **FIXED,
            "bootstrap.servers": self.feed.bootstrap,
            "group.id": group or "tailrace-reader",
        }
        try:
            return Consumer(options)
        except KafkaException as error:
            raise self.failure(error) from error

    def topics(self, consumer: Consumer, timeout_s: float) -> dict[str, int]:
        """The topics that exist, with their numbers of partitions.

        Raises:
            BrokersUnavailable, BrokersRefused: the brokers do not answer, or refuse.
            NothingPublished: there is no progress topic.
            DividedIntoShards: it has a partition of each shard.
        """
        try:
            found = consumer.list_topics(timeout=timeout_s).topics
        except KafkaException as error:
            raise self.failure(error) from error
        topics = {name: len(topic.partitions) for name, topic in found.items() if topic.partitions}
        if self.names.progress not in topics:
            raise NothingPublished(
                f"Kafka at {self._at} has no topic {self.names.progress}: no publisher has"
                " started under this prefix, or this user may not read it. Fix: check the prefix"
                " (tailrace publish logs it), or allow Read and Describe on the topic"
            )
        if topics[self.names.progress] > 1:
            raise DividedIntoShards.of_topic(self.names.progress, topics[self.names.progress])
        return topics

    def chosen(self, topics: Mapping[str, int], tables: Sequence[str]) -> dict[str, TableName]:
        """The data topics of some tables that exist; of all tables if none is named.

        Raises:
            UnknownTable: a table has no topic, or several fit.
            TableNameError: a name has another form.
        """
        found = {topic: self.names.table_of(topic) for topic in topics}
        existing = {topic: table for topic, table in found.items() if table is not None}
        if not tables:
            return existing
        wanted = {self._meant(name, existing.values()) for name in tables}
        return {topic: table for topic, table in existing.items() if table in wanted}

    def one(self, topics: Mapping[str, int], name: str) -> TableName:
        """The table that a name means.

        Raises:
            UnknownTable: it has no topic, or several fit.
            TableNameError: the name has another form.
        """
        return next(iter(self.chosen(topics, [name]).values()))

    def _meant(self, name: str, existing: Collection[TableName]) -> TableName:
        text = name
        if not any(name == str(table) for table in existing):
            text = ".".join(parse_table(name))
        meant = meant_by(text, existing)
        if len(meant) > 1:
            raise UnknownTable(told_apart(text, meant))
        if meant:
            return meant[0]
        there = ", ".join(sorted(table.in_database for table in existing))
        raise UnknownTable(
            f"table {text} is not published under prefix {self.names.prefix}: there are"
            f" {there or 'none'}. Fix: name one of them, or capture the table (tailrace enable"
            f" {text})"
        )

    def failure(self, error: KafkaException) -> BrokersUnavailable | BrokersRefused:
        """Our error for one of the client's."""
        inner = error.args[0] if error.args else error
        name = inner.name() if hasattr(inner, "name") else ""
        text = inner.str() if hasattr(inner, "str") else str(inner)
        if name in _REFUSALS:
            return BrokersRefused(
                f"Kafka at {self._at} refused: {text}. Fix: check security.protocol, sasl.*"
                " and the other options in Feed.kafka, and allow Read on the topics of prefix"
                f" {self.names.prefix}"
            )
        return BrokersUnavailable(
            f"Kafka at {self._at} does not answer: {text}. Fix: start a broker there, or"
            " check the address, and security.protocol and sasl.* in Feed.kafka"
        )
