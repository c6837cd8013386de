"""The data topics of the tables that a command names."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from tailrace.reading.table_names import parse_table
from tailrace.reading.topics import existing_data_topics
from tailrace_publisher.options.kafka import KafkaConfig
from tailrace_schemas.topics.topic_names import TableName, TopicNames, meant_by


@dataclass(slots=True)
class WantedTopics:
    """A container of topic names, those that appear later included.

    Attributes:
        tables: schema.table in any case; empty for all tables.
        found: the wanted topics that exist, each with its table.

    Raises:
        TableNameError: a name has another form.
        KafkaException: the brokers do not answer or refuse.
    """

    kafka: KafkaConfig
    names: TopicNames
    tables: Sequence[str]
    found: dict[str, TableName] = field(default_factory=dict)
    _existing: dict[str, TableName] = field(default_factory=dict)
    _looked_up: set[str] = field(default_factory=set)

    def __post_init__(self) -> None:
        """Look for the topics that exist."""
        self.tables = [".".join(parse_table(name)) for name in self.tables]
        self._look()

    def __contains__(self, topic: object) -> bool:
        """Whether a topic exists and is wanted; a name is looked up again only once."""
        if isinstance(topic, str) and topic not in self._existing and topic not in self._looked_up:
            self._looked_up.add(topic)
            self._look()
        return topic in self.found

    def problem(self) -> str | None:
        """Which wanted table has no topic; None if each has one, or none is named."""
        for name in self.tables:
            if not meant_by(name, self._existing.values()):
                there = ", ".join(sorted(table.in_database for table in self._existing.values()))
                return f"table {name} is not published: there are {there or 'none'}"
        return None

    def _look(self) -> None:
        topics = existing_data_topics(
            self.kafka.bootstrap,
            self.names,
            self.kafka.librdkafka_options(),
            timeout_s=self.kafka.start_timeout_s,
        )
        tables = {topic: self.names.table_of(topic) for topic in topics}
        self._existing = {topic: table for topic, table in tables.items() if table is not None}
        meant = {t for name in self.tables for t in meant_by(name, self._existing.values())}
        self.found = {t: table for t, table in self._existing.items() if table in meant}
        if not self.tables:
            self.found = self._existing
