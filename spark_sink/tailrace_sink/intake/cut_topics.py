"""The topics of a cut that go into the log: selected tables whose changes Kafka still has."""

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
    """Selection of the topics of a cut, with the reason of each that is left out."""

    def __init__(self, config: SinkConfig, check: TopicCheck) -> None:
        self._config = config
        self._check = check

    def selected(
        self, topics: Mapping[str, LogRange]
    ) -> tuple[dict[str, LogRange], dict[str, Loss]]:
        """Split topics into those that the configuration selects and those that it excludes."""
        wanted, left_out = {}, {}
        for topic, found in topics.items():
            table = self._config.topics.table_of(topic)
            if table is None or self._config.tables.selects(table):
                wanted[topic] = found
            else:
                left_out[topic] = Loss(EXCLUDED)
        return wanted, left_out

    def take_out_gone(self, topics: dict[str, LogRange]) -> dict[str, Loss]:
        """Remove from a cut what Kafka no longer has, and return the loss by topic."""
        lost: dict[str, Loss] = {}
        for topic, error in self._check.gone(
            {topic: of.partitions for topic, of in topics.items()}
        ).items():
            starts = error.starts if isinstance(error, ChangesLost) else {}
            # The rest may hold the snapshot that was requested because of this loss.
            found = topics.pop(topic)
            rest = found.from_offsets(starts) if starts else None
            if rest is not None:
                topics[topic] = rest
            lost[topic] = Loss(str(error), starts)
            _log.error("changes_lost", topic=topic, reason=str(error))
        return lost
