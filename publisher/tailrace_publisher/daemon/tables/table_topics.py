"""The topics of tables: one each; an error in one topic stops only its table."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from tailrace_publisher.daemon.tables.stopped import StoppedTables
from tailrace_publisher.deliver.topics import TopicSpec, data_spec
from tailrace_publisher.errors import (
    DeliveryRejected,
    TableFailed,
    TopicCompacted,
    TopicPartitionsChanged,
)
from tailrace_publisher.options.publisher_config import PublisherConfig
from tailrace_schemas.topics.topic_names import TableName


class TableTopics:
    """Names and creation of the tables' topics.

    Args:
        ensure_topics: creates topics; returns the partition count of each.
    """

    def __init__(
        self,
        config: PublisherConfig,
        ensure_topics: Callable[[list[TopicSpec]], Mapping[str, int]],
        stopped: StoppedTables,
    ) -> None:
        self.stopped = stopped
        self._config = config
        self._ensure_topics = ensure_topics
        self._partitions: dict[str, int] = {}

    def names(self, tables: Iterable[TableName]) -> dict[TableName, str]:
        """Return the topic of each table that can have one; count the others as missing."""
        topics: dict[TableName, str] = {}
        for table in tables:
            try:
                topics[table] = self._config.topics.data(table)
            except ValueError as error:
                self.stopped.miss(table, str(error))
            else:
                self.stopped.found(table)
        return topics

    def make(self, topics: Mapping[TableName, str], published: Iterable[TableName]) -> None:
        """Create the topics that do not exist; a refused one stops only its table.

        Args:
            topics: by table.
            published: tables whose events are in their topics. If such a topic is missing, the
                deletion is reported.
        """
        holding = set(published)
        self._make(
            {
                table: data_spec(table, topic, self._config.kafka, holds_events=table in holding)
                for table, topic in topics.items()
            }
        )

    def make_again(self, table: TableName, topic: str) -> None:
        """Create a table's topic if it was deleted; a new snapshot will fill it.

        Raises:
            TableFailed: Kafka refuses the topic.
        """
        try:
            self._ensure([data_spec(table, topic, self._config.kafka)])
        except DeliveryRejected as error:
            raise TableFailed(table, error) from error

    def partitions(self, topic: str) -> int:
        """Return the partition count of a topic when it was last ensured; it places the keys."""
        return self._partitions[topic]

    def check_partitions(self, table: TableName, topic: str, before: int | None) -> None:
        """Check that keys stay in their partitions, unless an operator requested a new snapshot.

        The earlier partition count placed them. None, from an earlier release, counts as unchanged.

        Raises:
            TopicPartitionsChanged: the topic has another partition count.
        """
        now = self._partitions[topic]
        if before not in {None, now} and not self.stopped.is_asked_for(table):
            raise TopicPartitionsChanged(table, topic, before, now)

    def _ensure(self, specs: list[TopicSpec]) -> None:
        self._partitions.update(self._ensure_topics(specs))

    def _make(self, new: dict[TableName, TopicSpec]) -> None:
        if not new:
            return
        try:
            self._ensure(list(new.values()))
        except TopicCompacted as error:
            of_topic = {spec.name: table for table, spec in new.items()}
            self.stopped.add(of_topic[error.topic], error)
            self._make({n: s for n, s in new.items() if s.name != error.topic})
        except DeliveryRejected as error:
            if len(new) == 1:
                self.stopped.add(next(iter(new)), error)
                return
            for table, spec in new.items():
                self._make({table: spec})
