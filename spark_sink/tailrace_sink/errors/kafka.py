"""What Kafka did not give: brokers that are away, records and topics that are gone."""

from __future__ import annotations

from collections.abc import Mapping

from tailrace_sink.errors.base import SNAPSHOT_HELPS, SinkError, TableError


class KafkaUnavailable(SinkError):
    """No broker answers, or the progress topic does not exist yet: waiting helps."""

    retryable = True


class TopicUnknown(KafkaUnavailable):
    """The brokers do not know a topic: they have just started, or it was deleted."""


class ChangesLost(SinkError):
    """Kafka no longer holds offsets that the lake still needs: retention overtook the sink.

    The table stops alone and leaves the lake's cuts; a new snapshot brings it back.

    Attributes:
        starts: partition to the first offset that Kafka has, where the brokers were asked.
    """

    def __init__(self, step: str, reason: str, starts: Mapping[int, int] | None = None) -> None:
        self.step = step
        self.starts = dict(starts or {})
        super().__init__(
            f"{step}: the topics no longer hold changes that the lake needs ({reason}); raise their"
            f" retention, and take a new snapshot of the table {SNAPSHOT_HELPS}"
        )


class ProgressTruncated(SinkError):
    """The progress topic no longer holds records that come next: the log is opened again.

    It then continues after them (``late_beginning``).
    """

    retryable = True


class TopicGone(SinkError):
    """A topic was deleted before the lake had all of it.

    The table stops alone; a new snapshot brings it back.
    """

    def __init__(self, topic: str) -> None:
        self.topic = topic
        super().__init__(
            f"topic {topic} was deleted, with changes that the lake needs; take a new snapshot"
            f" of its table {SNAPSHOT_HELPS}, which makes it anew"
        )


class TopicRecreated(TableError):
    """A topic starts below offsets that the lake has: it was deleted and created again.

    The table stops alone; a new snapshot brings it back.
    """

    def __init__(self, topic: str) -> None:
        self.topic = topic
        super().__init__(
            f"topic {topic} was deleted and created again: changes that it held may be missing;"
            f" take a new snapshot of its table {SNAPSHOT_HELPS}"
        )
