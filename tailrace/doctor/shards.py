"""Kafka: are the topics divided into as many shards as the configuration says."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from tailrace.doctor.findings import Finding, Fix, Judge, Part

if TYPE_CHECKING:
    from confluent_kafka.admin import ClusterMetadata  # type: ignore[attr-defined]

    from tailrace_schemas.topics.topic_names import TopicNames

_JUDGE: Final = Judge(Part.KAFKA)
_SUBJECT: Final = "shards"


def look_at_shards(metadata: ClusterMetadata, topics: TopicNames, shards: int) -> Iterator[Finding]:
    """Judge how many shards there are.

    Args:
        topics: names of the publisher's own topics.
        shards: how many the configuration says.
    """
    names = [topics.offsets, topics.progress, topics.control]
    found = {
        name: len(metadata.topics[name].partitions) for name in names if name in metadata.topics
    }
    others = {name: count for name, count in found.items() if count != shards}
    if others:
        told = ", ".join(f"{name} has {count}" for name, count in others.items())
        yield _JUDGE.problem(
            _SUBJECT,
            f"publisher.shards.count is {shards}, and by partitions {told}",
            "no publisher starts",
            Fix(
                f"publisher.shards.count: {max(others.values())}; or end all publishers and run"
                " tailrace reshard"
            ),
        )
    elif shards > 1:
        yield _JUDGE.ok(_SUBJECT, f"{shards}, as the topics have")
