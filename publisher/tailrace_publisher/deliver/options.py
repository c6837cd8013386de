"""How a delivery uses Kafka, and what it publishes next to the data."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from tailrace_publisher.options.kafka import Partitioner


@dataclass(frozen=True, slots=True)
class DeliveryOptions:
    """How a delivery uses Kafka.

    Attributes:
        transactional_id: stable per publisher. A producer that starts with it fences the previous
            one.
        replication_factor: of new topics; None leaves it to the brokers.
        commit_timeout_s: until an unfinished transaction fails.
        transaction_timeout_ms: after it the brokers abort a transaction. It must exceed the longest
            one.
        queue_bytes: memory for waiting messages.
        dead_letters: whether events that cannot be encoded are published to their own topic.
            Otherwise they stop their table.
        topic_settings: of new topics for transactions, schema changes and dead letters.
    """

    transactional_id: str
    commit_timeout_s: float
    start_timeout_s: float
    replication_factor: int | None = None
    tombstones: bool = True
    transaction_timeout_ms: int = 300_000
    queue_bytes: int = 128_000_000
    transactions: bool = False
    schema_changes: bool = False
    dead_letters: bool = False
    topic_settings: Mapping[str, str] = field(default_factory=dict)
    progress_settings: Mapping[str, str] = field(default_factory=dict)
    partitioner: Partitioner = Partitioner.CRC32
