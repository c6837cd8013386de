"""Errors of Kafka: brokers that do not answer, records and topics that are gone."""

from __future__ import annotations

from collections.abc import Mapping

from tailrace_sink.errors.base import SNAPSHOT_HELPS, SinkError, TableError


class KafkaUnavailable(SinkError):
    """No broker answers, or the progress topic does not exist yet. The sink waits."""

    retryable = True


class TopicUnknown(KafkaUnavailable):
    """The brokers do not know a topic: they have just started, or the topic was deleted."""


class ChangesLost(TableError):
    """Kafka deleted offsets that the lake needs: retention overtook the sink.

    Attributes:
        starts: partition to the first offset that Kafka has; empty if it was not queried.
    """

    def __init__(self, step: str, reason: str, starts: Mapping[int, int] | None = None) -> None:
        self.step = step
        self.starts = dict(starts or {})
        super().__init__(
            f"{step}: the topics no longer hold changes that the lake needs ({reason}). Fix: raise"
            f" their retention, and take a new snapshot of the table {SNAPSHOT_HELPS}"
        )


class ProgressTruncated(SinkError):
    """Kafka deleted progress records that the lake needs next.

    The sink opens the log again, which continues after them (``expired_progress``).
    """

    retryable = True


class TopicGone(TableError):
    """A topic was deleted before the lake had all its changes."""

    def __init__(self, topic: str) -> None:
        self.topic = topic
        super().__init__(
            f"topic {topic} was deleted, with changes that the lake needs. Fix: take a new snapshot"
            f" of its table {SNAPSHOT_HELPS}, which creates the topic again"
        )


class TopicRecreated(TableError):
    """A topic starts below offsets that the lake has: it was deleted and created again."""

    def __init__(self, topic: str) -> None:
        self.topic = topic
        super().__init__(
            f"topic {topic} was deleted and created again: the lake may lack changes that it held."
            f" Fix: take a new snapshot of its table {SNAPSHOT_HELPS}"
        )
