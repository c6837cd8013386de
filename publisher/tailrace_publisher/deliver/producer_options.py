"""What librdkafka is told of a transactional producer, below the user's own options."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

MESSAGE_BYTES_MAX: Final = 16 << 20
"""Default of ``message.max.bytes``: so the limit that counts is the topic's, of 1 MB by default.

librdkafka's own default of 1 MB would be a second one, which a raised limit of the topic meets."""


def producer_options(
    transactional_id: str, transaction_timeout_ms: int, own: Mapping[str, Any]
) -> dict[str, Any]:
    """The options of its client.

    Args:
        transactional_id: of the producer.
        transaction_timeout_ms: after which the brokers abort a transaction by themselves.
        own: the user's librdkafka options, which count; but for these two.
    """
    return {
        # Fewer and larger batches cost both sides less; flush, so commit, waits for none.
        "linger.ms": 30,
        "compression.type": "lz4",
        "message.max.bytes": MESSAGE_BYTES_MAX,
        # 10,000 messages of 350 bytes are 6 MB when the brokers stall; more buys nothing.
        "queue.buffering.max.messages": 10_000,
        "client.id": transactional_id,
        **own,
        "transactional.id": transactional_id,
        "transaction.timeout.ms": transaction_timeout_ms,
    }


def queue_settings(queue_bytes: int, own: Mapping[str, str]) -> dict[str, str]:
    """How many kilobytes of messages may wait to be sent.

    A message that is larger than the queue would never get into it.

    Args:
        queue_bytes: wanted size of the queue.
        own: the user's librdkafka options.
    """
    limit = own.get("message.max.bytes", "")
    largest = int(limit) if limit.isdigit() else MESSAGE_BYTES_MAX
    return {"queue.buffering.max.kbytes": str(max(queue_bytes, 2 * largest) // 1024)}
