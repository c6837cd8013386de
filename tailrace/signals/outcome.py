"""What the publisher answers to a signal: accepted, or refused and why."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from typing import TYPE_CHECKING, Self

from tailrace_publisher.checkpoint.reader import read_checkpoints
from tailrace_publisher.daemon.offline.open_topics import open_topics

if TYPE_CHECKING:
    from tailrace_publisher.options.publisher_config import PublisherConfig
    from tailrace_schemas.records.checkpoint import DatabaseCheckpoint

CheckpointReader = Callable[[], "DatabaseCheckpoint | None"]
"""Reads the newest checkpoint of the database; None if it has none."""


class Outcome:
    """Looks for the outcome of one signal until the publisher has answered.

    It opens registry and topics once.

    Args:
        opened: opens the reader; tried again by the next look if it fails.
        offset: of the signal in its topic.
    """

    def __init__(
        self, opened: Callable[[], AbstractContextManager[CheckpointReader]], offset: int
    ) -> None:
        self._opened, self._offset = opened, offset
        self._open = ExitStack()
        self._read: CheckpointReader | None = None

    def look(self) -> list[str] | None:
        """Return why it was refused; empty if it was accepted, None if it was not taken yet.

        Raises:
            PublisherError, RegistryError: the checkpoint cannot be read.
        """
        if self._read is None:
            self._read = self._open.enter_context(self._opened())
        own = self._read()
        if own is None or (own.signals_offset or 0) <= self._offset:
            return None
        refusal = own.refused_signals.get(str(self._offset))
        return [] if refusal is None else [refusal]

    def __enter__(self) -> Self:
        """Nothing is opened before the first look."""
        return self

    def __exit__(self, *_: object) -> None:
        """Close what the looks have opened."""
        self._open.close()


def outcome_of(config: PublisherConfig, offset: int) -> Outcome:
    """The outcome of a signal to the publisher of a configuration."""

    @contextmanager
    def opened() -> Iterator[CheckpointReader]:
        with open_topics(config) as topics:
            yield lambda: read_checkpoints(topics, config.kafka.start_timeout_s).database

    return Outcome(opened, offset)
