"""Offset of the progress topic up to which the lake has everything, committed to a consumer group.

The publisher waits for it before it removes change rows (ADR 0087), and Kafka's tools show it as
the lag of the group. The sink itself never reads it. So a commit that fails only delays: the next
one replaces it. Commits are sent without waiting for the answer.
"""

from __future__ import annotations

from typing import Any, Final

import structlog
from py4j.protocol import Py4JError
from pyspark.sql import SparkSession

from tailrace_sink.errors import ConfigError
from tailrace_sink.kafka.offset_bounds import kafka_classes
from tailrace_sink.kafka.offset_reads import client_properties
from tailrace_sink.kafka.progress_topic import PARTITION
from tailrace_sink.options.kafka_options import KafkaConfig
from tailrace_sink.spark.jvm_errors import translated

_CLOSING_MS: Final = 1_000

_log = structlog.get_logger("tailrace.sink")


class GroupOffsets:
    """Committer of the progress topic's offset to ``kafka.consumer_group``; used by one thread."""

    def __init__(self, spark: SparkSession, kafka: KafkaConfig, topic: str) -> None:
        self._jvm: Any = spark._jvm  # noqa: SLF001 - Spark's own client commits them
        self._kafka = kafka
        self._topic = topic
        self._admin: Any = None
        self._wanted = self._sent = 0
        self._answer: Any = None
        self._reason = ""

    def commit(self, offset: int | None) -> None:
        """Commit an offset, unless it is not new or an answer is pending.

        Never raises and never waits for the brokers.
        """
        group = self._kafka.consumer_group
        if not group or offset is None:
            return
        self._wanted = offset
        try:
            if self._answer is not None:
                if not self._answer.isDone():
                    return
                answer, self._answer = self._answer, None
                answer.get()
                self._reason = ""
            self._send(group)
        except (Py4JError, ConfigError) as error:
            self._failed(error)

    def close(self) -> None:
        """Commit the newest offset, wait shortly for the answer, and close the client."""
        if self._admin is None:
            return
        unit = self._jvm.java.util.concurrent.TimeUnit.MILLISECONDS
        try:
            if self._answer is not None:
                self._answer.get(_CLOSING_MS, unit)
            self._send(self._kafka.consumer_group)
        except (Py4JError, ConfigError) as error:
            self._failed(error)
        self._admin.close(self._jvm.java.time.Duration.ofMillis(_CLOSING_MS))
        self._admin = None

    def _send(self, group: str) -> None:
        """Send the newest offset, unless it was sent."""
        if self._wanted == self._sent:
            return
        classes = kafka_classes(self._jvm)
        if self._admin is None:
            self._admin = classes.admin.create(client_properties(self._jvm, self._kafka))
        places = self._jvm.java.util.HashMap()
        place = classes.partition(self._topic, PARTITION)
        places.put(place, classes.committed(self._wanted))
        self._answer = self._admin.alterConsumerGroupOffsets(group, places).all()
        self._sent = self._wanted

    def _failed(self, error: Py4JError | ConfigError) -> None:
        group, self._sent = self._kafka.consumer_group, 0
        doing = f"committing to consumer group {group}"
        reason = str(translated(doing, error) if isinstance(error, Py4JError) else error)
        if reason == self._reason:
            return
        self._reason = reason
        _log.warning(
            "offsets_not_committed",
            group=group,
            reason=reason,
            effect="a publisher that waits for this lake removes no further change rows",
            fix="allow Read on the group and on the progress topic to the sink, and let no other"
            " consumer use the group",
        )
