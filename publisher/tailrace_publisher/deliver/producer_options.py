"""The librdkafka options of a transactional producer, which the user's own options override."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

MESSAGE_BYTES_MAX: Final = 16 << 20
"""Default of ``message.max.bytes``, so high that only the topic's limit counts (1 MB by default).

librdkafka's own default of 1 MB would be a second limit when that of the topic is raised."""


def producer_options(
    transactional_id: str, transaction_timeout_ms: int, own: Mapping[str, Any]
) -> dict[str, Any]:
    """Return the options of the producer's client.

    Args:
        transactional_id: replaces the user's setting.
        transaction_timeout_ms: likewise; after it the brokers abort a transaction.
        own: the user's librdkafka options, which override all others.
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
    """Return the limit of waiting messages, in kilobytes.

    The limit is raised for large messages: one larger than the queue would never get into it.
    """
    limit = own.get("message.max.bytes", "")
    largest = int(limit) if limit.isdigit() else MESSAGE_BYTES_MAX
    return {"queue.buffering.max.kbytes": str(max(queue_bytes, 2 * largest) // 1024)}
