"""Creating topics and learning how many partitions they have."""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import AdminClient, NewTopic  # type: ignore[attr-defined]

from publisher.deliver.kafka_errors import kafka_error, translate
from publisher.errors import DeliveryRejected, KafkaUnavailable

_POLL_S: Final = 0.05
_MARGIN_S: Final = 1.0  # so that the client's own timeout, which says why, comes first


@dataclass(frozen=True, slots=True)
class TopicSpec:
    """A topic as it is created when it does not exist; one that does is left as it is.

    Attributes:
        name: the topic.
        partitions: number of partitions.
        config: topic options, e.g. ``cleanup.policy``.
    """

    name: str
    partitions: int
    config: Mapping[str, str] = field(default_factory=dict)


class TopicAdmin:
    """Kafka's administrative side.

    Args:
        settings: librdkafka options of the connection.
        replication_factor: copies of new topics.
        timeout_s: longest wait for brokers.
    """

    def __init__(
        self, settings: Mapping[str, str], replication_factor: int, timeout_s: float
    ) -> None:
        self._admin = AdminClient(dict(settings))
        self._replication_factor = replication_factor
        self._timeout_s = timeout_s

    def ensure(self, specs: Sequence[TopicSpec]) -> dict[str, int]:
        """Create what is missing and wait until every partition has a leader.

        Returns:
            Number of partitions by topic, as they are, not as they were asked for.

        Raises:
            KafkaUnavailable: no broker answered in time.
            DeliveryRejected: the brokers refused a topic.
        """
        deadline = time.monotonic() + self._timeout_s
        present = self._partitions()
        missing = [spec for spec in specs if spec.name not in present]
        if missing:
            self._create(missing)
        ticks = threading.Event()
        while missing:
            present = self._partitions()
            missing = [spec for spec in missing if spec.name not in present]
            if missing and time.monotonic() > deadline:
                names = ", ".join(spec.name for spec in missing)
                raise KafkaUnavailable(f"no leader for new topics within time: {names}")
            if missing:
                ticks.wait(_POLL_S)
        return {spec.name: present[spec.name] for spec in specs}

    def _create(self, specs: Sequence[TopicSpec]) -> None:
        futures = self._admin.create_topics(
            [
                NewTopic(
                    spec.name,
                    num_partitions=spec.partitions,
                    replication_factor=self._replication_factor,
                    config=dict(spec.config),
                )
                for spec in specs
            ],
            request_timeout=self._timeout_s,
        )
        for name, future in futures.items():
            try:
                future.result(self._timeout_s + _MARGIN_S)
            except TimeoutError as error:
                raise KafkaUnavailable(f"creating topic {name}: no answer") from error
            except KafkaException as error:
                inner = kafka_error(error)
                if inner is None or inner.code() != KafkaError.TOPIC_ALREADY_EXISTS:
                    raise translate(f"creating topic {name}", error) from error

    def _partitions(self) -> dict[str, int]:
        """Partitions by topic, of topics whose partitions all have a leader."""
        try:
            metadata = self._admin.list_topics(timeout=self._timeout_s)
        except KafkaException as error:
            raise translate("listing topics", error) from error
        return {
            name: len(topic.partitions)
            for name, topic in metadata.topics.items()
            if topic.partitions and all(p.leader >= 0 for p in topic.partitions.values())
        }


def require_single_partition(partitions: Mapping[str, int], topics: Sequence[str]) -> None:
    """Checkpoint and progress records rest on the order within one partition.

    Raises:
        DeliveryRejected: a topic of that name has more.
    """
    for topic in topics:
        if partitions[topic] != 1:
            raise DeliveryRejected(
                f"topic {topic} has {partitions[topic]} partitions, it must have one: delete it if"
                " it is not in use, or choose another prefix"
            )
