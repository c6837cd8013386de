"""The topics of tables: each table's own; what is wrong with one stops its table alone."""

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
    """Names and makes the topics of tables.

    Args:
        config: the options.
        ensure_topics: creates topics; gives how many partitions each has.
        stopped: the tables that cannot go on.

    Attributes:
        stopped: the tables that cannot go on.
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
        """The topic of each table that can have one; the others count as missing."""
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
        """Create the topics that do not exist; one that is refused stops its table alone.

        Args:
            topics: by table.
            published: tables whose events are in their topics: should one be gone, it is told.
        """
        holding = set(published)
        self._make(
            {
                table: data_spec(table, topic, self._config.kafka, holds_events=table in holding)
                for table, topic in topics.items()
            }
        )

    def make_again(self, table: TableName, topic: str) -> None:
        """Create a table's topic should it be gone; a new snapshot will fill it.

        Raises:
            TableFailed: it is refused.
        """
        try:
            self._ensure([data_spec(table, topic, self._config.kafka)])
        except DeliveryRejected as error:
            raise TableFailed(table, error) from error

    def partitions(self, topic: str) -> int:
        """How many partitions a topic had when it was last ensured: keys are placed by this."""
        return self._partitions[topic]

    def check_partitions(self, table: TableName, topic: str, before: int | None) -> None:
        """Check that keys stay in their partitions, unless an operator asks for a new snapshot.

        They were placed by the number before; None, of an earlier release, is taken for the same.

        Raises:
            TopicPartitionsChanged: the topic has another number.
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
