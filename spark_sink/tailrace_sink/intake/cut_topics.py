"""What of a cut goes into the log: the selected tables, as far as Kafka still has their changes."""

from __future__ import annotations

from collections.abc import Mapping

import structlog

from tailrace_sink.errors import EXCLUDED, ChangesLost
from tailrace_sink.kafka.offset_bounds import TopicCheck
from tailrace_sink.options.config import SinkConfig
from tailrace_sink.plan.cut_plan import LogRange
from tailrace_sink.plan.progress_record import Loss

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
    ) -> tuple[dict[str, LogRange], dict[str, Loss]]:
        """What the configuration wants, and the topics that it leaves out."""
        wanted, left_out = {}, {}
        for topic, found in topics.items():
            table = self._config.topics.table_of(topic)
            if table is None or self._config.tables.selects(table):
                wanted[topic] = found
            else:
                left_out[topic] = Loss(EXCLUDED)
        return wanted, left_out

    def take_out_gone(self, topics: dict[str, LogRange]) -> dict[str, Loss]:
        """Take what Kafka no longer has out of a cut, and tell what that was, by topic."""
        lost: dict[str, Loss] = {}
        for topic, error in self._check.gone(
            {topic: of.partitions for topic, of in topics.items()}
        ).items():
            starts = error.starts if isinstance(error, ChangesLost) else {}
            # What is left may hold a snapshot that was taken for just this reason.
            found = topics.pop(topic)
            rest = found.from_offsets(starts) if starts else None
            if rest is not None:
                topics[topic] = rest
            lost[topic] = Loss(str(error), starts)
            _log.error("changes_lost", topic=topic, reason=str(error))
        return lost
