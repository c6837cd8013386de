"""Reads the map of shards from the control topic."""

from __future__ import annotations

from tailrace_publisher.checkpoint.partition import newest_by_key
from tailrace_publisher.errors import CheckpointError
from tailrace_publisher.options.broker_waits import PATIENCE_S
from tailrace_publisher.ports import KafkaAccess
from tailrace_schemas.records.shards import MAP_KEY, ShardMap


def read_map(kafka: KafkaAccess, topic: str, patience_s: float = PATIENCE_S) -> ShardMap | None:
    """Read the newest committed map; None while there is none.

    Args:
        topic: the control topic, which must exist.
        patience_s: seconds without a further record after which it gives up.

    Raises:
        CheckpointUnavailable: the end of the topic was not reached.
        CheckpointError: the record is no map, or one of a later release.
    """
    newest = newest_by_key(kafka, topic, patience_s).get(MAP_KEY)
    if newest is None:
        return None
    try:
        return ShardMap.from_bytes(newest)
    except ValueError as error:
        raise CheckpointError(f"topic {topic}: {error}") from error
