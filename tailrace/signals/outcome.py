"""What the shards of a publisher answer to a signal: accepted, or refused and why."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from typing import TYPE_CHECKING, Self

from tailrace_publisher.checkpoint.reader import read_checkpoints
from tailrace_publisher.daemon.offline.open_topics import open_topics

if TYPE_CHECKING:
    from tailrace_publisher.options.publisher_config import PublisherConfig
    from tailrace_publisher.runtime import DatabaseTopics
    from tailrace_schemas.records.checkpoint import DatabaseCheckpoint

ShardReader = Callable[[], "DatabaseCheckpoint | None"]
"""Reads the newest checkpoint of one shard; None if it has none."""


class Outcome:
    """Looks for the outcome of one signal until all shards have answered.

    It opens registry and topics once, and reads a shard only until that has answered: a checkpoint
    forgets refusals after a minute.

    Args:
        opened: opens the readers of all shards; tried again by the next look if it fails.
        offset: of the signal in its topic.
    """

    def __init__(
        self, opened: Callable[[], AbstractContextManager[list[ShardReader]]], offset: int
    ) -> None:
        self._opened, self._offset = opened, offset
        self._open = ExitStack()
        self._waiting: list[ShardReader] | None = None
        self._refusals: dict[str, None] = {}

    def look(self) -> list[str] | None:
        """Return why shards refused it; empty if all accepted it, None if one has not come to it.

        Raises:
            PublisherError, RegistryError: a checkpoint cannot be read; what is known stays.
        """
        if self._waiting is None:
            self._waiting = self._open.enter_context(self._opened())
        for shard in self._waiting.copy():
            own = shard()
            if own is not None and (own.signals_offset or 0) > self._offset:
                self._waiting.remove(shard)
                refusal = own.refused_signals.get(str(self._offset))
                self._refusals |= {} if refusal is None else {refusal: None}
        return None if self._waiting else list(self._refusals)

    def __enter__(self) -> Self:
        """Nothing is opened before the first look."""
        return self

    def __exit__(self, *_: object) -> None:
        """Close what the looks have opened."""
        self._open.close()


def outcome_of(config: PublisherConfig, offset: int) -> Outcome:
    """The outcome of a signal to the publisher of a configuration."""

    @contextmanager
    def opened() -> Iterator[list[ShardReader]]:
        with open_topics(config) as shards:
            yield [_reader(config, topics) for topics in shards]

    return Outcome(opened, offset)


def _reader(config: PublisherConfig, topics: DatabaseTopics) -> ShardReader:
    return lambda: read_checkpoints(topics, config.kafka.start_timeout_s).database
