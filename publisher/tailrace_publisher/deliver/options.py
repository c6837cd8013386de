"""How a delivery talks to Kafka, and what it publishes beside the data."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from tailrace_publisher.options.kafka import Partitioner


@dataclass(frozen=True, slots=True)
class DeliveryOptions:
    """How to talk to Kafka.

    Attributes:
        transactional_id: stable per publisher; whoever starts with it fences the one before.
        replication_factor: copies of topics that are created; None leaves it to the brokers.
        tombstones: whether deletes are followed by a record with a null value.
        commit_timeout_s: until an unfinished transaction counts as failed or unknown.
        start_timeout_s: longest wait for brokers at the start.
        transaction_timeout_ms: after which the brokers abort a transaction by themselves; must
            exceed the longest one.
        queue_bytes: messages that wait to be sent may take so much memory.
        transactions: whether there is a topic of begin and end of transactions.
        schema_changes: whether there is a topic of schema changes.
        dead_letters: whether events that cannot be published go to a topic of their own.
        topic_settings: of these three.
        progress_settings: of a new progress topic.
        partitioner: what chooses the partition of a key.
    """

    transactional_id: str
    replication_factor: int | None = None
    tombstones: bool = True
    commit_timeout_s: float = 60.0
    start_timeout_s: float = 30.0
    transaction_timeout_ms: int = 300_000
    queue_bytes: int = 128_000_000
    transactions: bool = False
    schema_changes: bool = False
    dead_letters: bool = False
    topic_settings: Mapping[str, str] = field(default_factory=dict)
    progress_settings: Mapping[str, str] = field(default_factory=dict)
    partitioner: Partitioner = Partitioner.CRC32
