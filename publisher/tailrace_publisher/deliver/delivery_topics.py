"""The topics that a delivery writes: created, checked for retention, and their size limits."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import structlog

from tailrace_publisher.deliver.options import DeliveryOptions
from tailrace_publisher.deliver.progress_records import largest_record
from tailrace_publisher.deliver.segments import warn_of_large_segments
from tailrace_publisher.deliver.topic_settings import (
    check_not_compacted,
    check_retains_newest,
    retention_limits,
    warn_of_durability,
    warn_of_retention,
)
from tailrace_publisher.deliver.topics import TopicAdmin, TopicSpec, check_undivided, offsets_spec
from tailrace_publisher.errors import DeliveryError, DeliveryRejected, DeliveryTimeout, TopicRefused
from tailrace_publisher.runtime import DatabaseTopics

_log = structlog.get_logger(__name__)

_KEPT: Final = {"cleanup.policy": "delete", "retention.ms": "-1"}


class DeliveryTopics:
    """The partitions and record size limits of a delivery's topics."""

    def __init__(self, topics: DatabaseTopics, options: DeliveryOptions) -> None:
        self._target = topics
        self._names = topics.names
        self._options = options
        self._partitions: dict[str, int] = {}
        self._largest: dict[str, int] = {}
        self._progress_bytes_max = largest_record(topics.kafka.options, {})

    @property
    def progress_bytes_max(self) -> int:
        """Bytes that a progress record may have."""
        return self._progress_bytes_max

    def ensure_own(self) -> None:
        """Create and check the checkpoint and progress topics, and those next to the data.

        Raises:
            KafkaUnavailable: no broker answered in time.
            DeliveryRejected: the brokers refused one.
            DividedIntoShards: one has several partitions.
            CheckpointRetentionTooShort: the checkpoint topic does not retain its records.
        """
        own = [self._names.offsets, self._names.progress]
        self.ensure(
            [
                offsets_spec(self._names.offsets),
                TopicSpec(self._names.progress, 1, self._options.progress_settings),
                *self._optional_topics(),
            ]
        )
        check_undivided(self._names, self._partitions)
        self._check_settings(own)

    def ensure(self, specs: Sequence[TopicSpec]) -> dict[str, int]:
        """Create missing topics; return the number of partitions of each topic.

        Raises:
            KafkaUnavailable: no broker answered in time.
            DeliveryRejected: the brokers refused a topic, or one that holds events is gone.
            TopicCompacted: a topic that the ledger counts is compacted.
        """
        admin = self._admin()
        found = admin.ensure(specs)
        ledgered = {spec.name for spec in specs if spec.is_ledgered}
        asked = list(found) if self._options.dead_letters else sorted(ledgered)
        for topic, settings in admin.settings(asked).items():
            if topic in ledgered:
                check_not_compacted(topic, settings)
            self._largest[topic] = largest_record(self._target.kafka.options, settings)
        self._partitions.update(found)
        return found

    def partitions(self, topic: str) -> int:
        """Return the number of partitions of a topic.

        Raises:
            DeliveryRejected: the topic was never ensured.
        """
        count = self._partitions.get(topic)
        if count is None:
            raise DeliveryRejected(f"topic {topic}: ensure_topics was not called for it")
        return count

    def doubt(self, topics: Sequence[str]) -> DeliveryTimeout | None:
        """Return that one of some topics that hold events may be gone; None if none seems to be.

        The messages of a deleted topic fail only when the producer's time is over.
        Inferred from librdkafka 2.16, with a topic that was deleted during a transaction.
        A broker that has just started may not know its topics yet, so the next start decides.
        """
        try:
            self._admin().check_there(topics)
        except TopicRefused as error:
            return DeliveryTimeout(f"{error}. The next start looks for the topic again")
        except DeliveryError as error:
            _log.info("topics_not_described", topics=len(topics), reason=str(error))
        return None

    def largest_event(self, topic: str) -> int:
        """Return the bytes that an event's key and value may have together, uncompressed."""
        return self._largest.get(topic) or largest_record(self._target.kafka.options, {})

    def _optional_topics(self) -> list[TopicSpec]:
        """Return the optional topics next to the data; one partition keeps source order."""
        options, names = self._options, []
        if options.transactions:
            names.append(self._names.transaction)
        if options.schema_changes:
            names.append(self._names.ddl(self._target.database))
        specs = [TopicSpec(name, 1, options.topic_settings) for name in names]
        if options.dead_letters:
            settings = {**_KEPT, **options.topic_settings}
            specs.append(TopicSpec(self._names.dead_letters, 1, settings))
        return specs

    def _check_settings(self, own: Sequence[str]) -> None:
        """Check the retention of checkpoint and progress.

        Raises:
            CheckpointRetentionTooShort: the checkpoint topic does not retain its records.
        """
        admin = self._admin()
        settings = admin.settings(own)
        if self._names.offsets in settings:
            check_retains_newest(self._names.offsets, settings[self._names.offsets])
            warn_of_large_segments(self._names.offsets, settings[self._names.offsets])
        progress = settings.get(self._names.progress, {})
        if retention_limits(progress):
            data = admin.existing(lambda name: self._names.table_of(name) is not None)
            warn_of_retention(self._names.progress, progress, admin.settings(data))
        self._progress_bytes_max = largest_record(self._target.kafka.options, progress)
        warn_of_durability(admin.copies(own), settings)

    def _admin(self) -> TopicAdmin:
        return TopicAdmin(
            self._target.kafka, self._options.replication_factor, self._options.start_timeout_s
        )
