"""Creating topics and learning their numbers of partitions."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from confluent_kafka import KafkaError, KafkaException, TopicCollection
from confluent_kafka.admin import NewTopic  # type: ignore[attr-defined]

from tailrace_publisher.deliver.kafka_errors import kafka_error, translate
from tailrace_publisher.deliver.segments import COMPACTED
from tailrace_publisher.deliver.topic_settings import (
    broker_defaults,
    describe_topics,
    new_topic_durability,
)
from tailrace_publisher.errors import DividedIntoShards, KafkaUnavailable
from tailrace_publisher.options.broker_waits import MARGIN_S, POLL_S, UNKNOWN_TOPIC_S
from tailrace_publisher.options.kafka import KafkaConfig
from tailrace_publisher.ports import KafkaAccess
from tailrace_schemas.topics.topic_names import TableName, TopicNames

_POLL_MAX_S: Final = 0.5  # each query lists all topics of the cluster
_SIGNALS_KEPT_MS: Final = 7 * 24 * 3600 * 1000


@dataclass(frozen=True, slots=True)
class TopicSpec:
    """A topic as it is created if it does not exist; an existing one is left unchanged.

    Attributes:
        config: topic options, for example ``cleanup.policy``.
        holds_events: events were published there. If the topic is gone, a new one in its place
            would hide that they are lost.
        is_ledgered: progress records count its contents. So it may not be compacted.
    """

    name: str
    partitions: int
    config: Mapping[str, str] = field(default_factory=dict)
    holds_events: bool = False
    is_ledgered: bool = False


def data_spec(
    table: TableName, topic: str, kafka: KafkaConfig, *, holds_events: bool = False
) -> TopicSpec:
    """Return the spec of a table's topic."""
    rule = kafka.topic_rule(table)
    return TopicSpec(
        topic,
        rule.partitions or kafka.partitions,
        rule.settings,
        holds_events,
        is_ledgered=not kafka.allow_compaction,
    )


def signals_spec(topic: str) -> TopicSpec:
    """Return the spec of the signals topic: one partition, retained for seven days."""
    return TopicSpec(topic, 1, {"retention.ms": str(_SIGNALS_KEPT_MS)})


def offsets_spec(topic: str) -> TopicSpec:
    """Return the spec of the checkpoint topic: one partition, which keeps the order of records."""
    return TopicSpec(topic, 1, COMPACTED)


class TopicAdmin:
    """Creates and describes topics.

    Args:
        replication_factor: of new topics; None leaves it to the brokers.
        timeout_s: longest wait for brokers.
    """

    def __init__(
        self, kafka: KafkaAccess, replication_factor: int | None, timeout_s: float
    ) -> None:
        self._clock = kafka.clock
        self._admin = kafka.admin()
        self._replication_factor = replication_factor
        self._timeout_s = timeout_s

    def ensure(self, specs: Sequence[TopicSpec]) -> dict[str, int]:
        """Create missing topics and wait until every partition has a leader.

        Returns:
            The number of partitions by topic, as it is, not as requested.

        Raises:
            KafkaUnavailable: no broker answered in time.
            TopicRefused: a topic may not be used, or one that holds events is gone.
            DeliveryRejected: the brokers refused a new topic.
        """
        began, pause_s = self._clock.monotonic(), POLL_S
        present = self._partitions()
        missing = [spec for spec in specs if spec.name not in present]
        new = [spec for spec in missing if not spec.holds_events]
        if new:
            self._create(new)
        while missing:
            present = self._partitions()
            missing = [spec for spec in missing if spec.name not in present]
            waited_s = self._clock.monotonic() - began
            if missing:
                self._check_usable(missing, waited_s)
            if missing and waited_s > self._timeout_s:
                names = ", ".join(spec.name for spec in missing)
                raise KafkaUnavailable(f"no leader for topics within time: {names}")
            if missing:
                self._clock.wait(pause_s)
                pause_s = min(2 * pause_s, _POLL_MAX_S)
        return {spec.name: present[spec.name] for spec in specs}

    def _check_usable(self, specs: Sequence[TopicSpec], waited_s: float) -> None:
        """Check that topics without a leader exist and that we may see them.

        Raises:
            TopicRefused: one may not be used, or it held events and the brokers do not know it.
        """
        asked = self._admin.describe_topics(  # unlike list_topics it never creates one
            TopicCollection([spec.name for spec in specs]), request_timeout=self._timeout_s
        )
        for spec in specs:
            try:
                asked[spec.name].result(self._timeout_s + MARGIN_S)
            except TimeoutError as error:
                raise KafkaUnavailable(f"describing topic {spec.name}: no answer") from error
            except KafkaException as error:
                inner = kafka_error(error)
                code = None if inner is None else inner.code()
                # A new topic, or any on a broker that has just started, is unknown for a moment.
                if code == KafkaError.UNKNOWN_TOPIC_OR_PART and (
                    not spec.holds_events or waited_s < min(UNKNOWN_TOPIC_S, self._timeout_s / 2)
                ):
                    continue
                raise translate(f"describing topic {spec.name}", error, spec.name) from error

    def check_there(self, topics: Sequence[str]) -> None:
        """Check that the brokers know topics that hold events, and that we may see them.

        Raises:
            TopicRefused: one was deleted, or may not be used.
            KafkaUnavailable: no broker answered in time.
        """
        self._check_usable([TopicSpec(name, 0, holds_events=True) for name in topics], math.inf)

    def partitions(self, topic: str) -> int | None:
        """Return the number of partitions of a topic; None if it does not exist.

        Raises:
            KafkaUnavailable: no broker answered in time.
        """
        found = self._metadata().topics.get(topic)
        return None if found is None else len(found.partitions)

    def existing(self, is_wanted: Callable[[str], bool]) -> list[str]:
        """Return the names of existing topics that match.

        Raises:
            KafkaUnavailable: no broker answered in time.
        """
        return sorted(filter(is_wanted, self._metadata().topics))

    def settings(self, topics: Sequence[str]) -> dict[str, dict[str, str]]:
        """Return the settings of topics by name; those that we may not see are missing, and logged.

        Raises:
            KafkaUnavailable: no broker answered in time.
        """
        return describe_topics(self._admin, topics, self._clock, self._timeout_s)

    def copies(self, topics: Sequence[str]) -> dict[str, int]:
        """Return the number of copies of each topic: that of its partition with the fewest.

        Raises:
            KafkaUnavailable: no broker answered in time.
        """
        found = self._metadata().topics
        return {
            name: min(len(partition.replicas) for partition in found[name].partitions.values())
            for name in topics
            if name in found and found[name].partitions
        }

    def _create(self, specs: Sequence[TopicSpec]) -> None:
        defaults = broker_defaults(self._admin, self._metadata().brokers, self._timeout_s)
        factor, durability = new_topic_durability(self._replication_factor, defaults)
        futures = self._admin.create_topics(
            [
                NewTopic(
                    spec.name,
                    num_partitions=spec.partitions,
                    replication_factor=factor,
                    config={**durability, **spec.config},
                )
                for spec in specs
            ],
            request_timeout=self._timeout_s,
        )
        for name, future in futures.items():
            try:
                future.result(self._timeout_s + MARGIN_S)
            except TimeoutError as error:
                raise KafkaUnavailable(f"creating topic {name}: no answer") from error
            except KafkaException as error:
                inner = kafka_error(error)
                if inner is None or inner.code() != KafkaError.TOPIC_ALREADY_EXISTS:
                    raise translate(f"creating topic {name}", error) from error

    def _partitions(self) -> dict[str, int]:
        """Return the number of partitions of each topic whose partitions all have a leader."""
        return {
            name: len(topic.partitions)
            for name, topic in self._metadata().topics.items()
            if topic.partitions and all(p.leader >= 0 for p in topic.partitions.values())
        }

    def _metadata(self) -> Any:
        try:
            return self._admin.list_topics(timeout=self._timeout_s)
        except KafkaException as error:
            raise translate("listing topics", error) from error


def check_undivided(names: TopicNames, partitions: Mapping[str, int]) -> None:
    """Check that checkpoint and progress have one partition, as releases with shards gave several.

    Their records rely on the order of a partition.

    Args:
        partitions: the number of each topic; a topic that does not exist is missing.

    Raises:
        DividedIntoShards: a topic has several partitions.
    """
    own = {name: partitions.get(name, 1) for name in (names.offsets, names.progress)}
    several = {name: count for name, count in own.items() if count != 1}
    if several:
        raise DividedIntoShards(names.prefix, several)
