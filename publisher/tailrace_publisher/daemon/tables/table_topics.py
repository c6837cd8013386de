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
        self._kafka = config.kafka
        self._ensure_topics = ensure_topics
        self._topic_of = config.topics.data
        self._partitions: dict[TableName, int] = {}

    def with_one(self, tables: Iterable[TableName]) -> list[TableName]:
        """Return the tables that can have a topic; count the others as missing."""
        found: list[TableName] = []
        for table in tables:
            try:
                self._topic_of(table)
            except ValueError as error:
                self.stopped.miss(table, str(error))
            else:
                self.stopped.found(table)
                found.append(table)
        return found

    def create(self, tables: Iterable[TableName], published: Iterable[TableName]) -> None:
        """Create the topics that do not exist; a refused one stops only its table.

        Args:
            published: tables whose events are in their topics. If such a topic is missing, the
                deletion is reported.
        """
        holding = set(published)
        self._create({table: self._spec(table, holds_events=table in holding) for table in tables})

    def recreate_topic(self, table: TableName) -> None:
        """Create a table's topic if it was deleted; a new snapshot will fill it.

        Raises:
            TableFailed: Kafka refuses the topic.
        """
        try:
            self._ensure({table: self._spec(table)})
        except DeliveryRejected as error:
            raise TableFailed(table, error) from error

    def partitions(self, table: TableName) -> int:
        """Return the partition count of a table's topic when last ensured; it places the keys."""
        return self._partitions[table]

    def check_partitions(self, table: TableName, before: int | None) -> None:
        """Check that keys stay in their partitions, unless an operator requested a new snapshot.

        The earlier partition count placed them. None, from an earlier release, counts as unchanged.

        Raises:
            TopicPartitionsChanged: the topic has another partition count.
        """
        now = self._partitions[table]
        if before not in {None, now} and not self.stopped.is_asked_for(table):
            raise TopicPartitionsChanged(table, self._topic_of(table), before, now)

    def _spec(self, table: TableName, *, holds_events: bool = False) -> TopicSpec:
        topic = self._topic_of(table)
        return data_spec(table, topic, self._kafka, holds_events=holds_events)

    def _ensure(self, specs: Mapping[TableName, TopicSpec]) -> None:
        found = self._ensure_topics(list(specs.values()))
        self._partitions.update({table: found[spec.name] for table, spec in specs.items()})

    def _create(self, new: dict[TableName, TopicSpec]) -> None:
        if not new:
            return
        try:
            self._ensure(new)
        except TopicCompacted as error:
            of_topic = {spec.name: table for table, spec in new.items()}
            self.stopped.add(of_topic[error.topic], error)
            self._create({n: s for n, s in new.items() if s.name != error.topic})
        except DeliveryRejected as error:
            if len(new) == 1:
                self.stopped.add(next(iter(new)), error)
                return
            for table, spec in new.items():
                self._create({table: spec})
