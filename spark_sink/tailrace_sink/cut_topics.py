"""What of a cut goes into the log: the selected tables, as far as Kafka still has their changes."""

from __future__ import annotations

from collections.abc import Mapping

import structlog

from tailrace_sink.config import SinkConfig
from tailrace_sink.errors import EXCLUDED
from tailrace_sink.kafka_bounds import TopicCheck
from tailrace_sink.log_plan import LogRange

_log = structlog.get_logger("tailrace.sink")


class CutTopics:
    """Leaves topics out of cuts, and says why.

    Args:
        config: selects the tables.
        check: asks the brokers what they have.
    """

    def __init__(self, config: SinkConfig, check: TopicCheck) -> None:
        self._config = config
        self._check = check

    def selected(
        self, topics: Mapping[str, LogRange]
    ) -> tuple[dict[str, LogRange], dict[str, str]]:
        """What the configuration wants, and the topics that it leaves out."""
        wanted, left_out = {}, {}
        for topic, found in topics.items():
            table = self._config.topics.table_of(topic)
            if table is None or self._config.tables.selects(table):
                wanted[topic] = found
            else:
                left_out[topic] = EXCLUDED
        return wanted, left_out

    def take_out_gone(self, topics: dict[str, LogRange]) -> dict[str, str]:
        """Take what Kafka no longer has out of a cut, and tell why, by topic."""
        lost = self._check.gone({topic: of.partitions for topic, of in topics.items()})
        for topic, error in lost.items():
            del topics[topic]
            _log.error("changes_lost", topic=topic, reason=str(error))
        return {topic: str(error) for topic, error in lost.items()}
