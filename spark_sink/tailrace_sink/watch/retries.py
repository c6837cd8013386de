"""Retries with growing pauses, up to a bound."""

from __future__ import annotations

import threading
from typing import Final

import structlog

from tailrace_service.backoff import Backoff
from tailrace_service.registry.client import RegistryError, RegistryUnavailable
from tailrace_sink.errors import ApplyFailed, DiskUnwritable, KafkaUnavailable, SinkError
from tailrace_sink.options.config import SinkConfig
from tailrace_sink.watch.local_disk import require_room
from tailrace_sink.watch.metrics import SinkMetrics

RETRIED: Final = (SinkError, RegistryError, OSError)
"""Errors that :class:`Retries` waits after. PyArrow raises OSError for what a store answers."""

_log = structlog.get_logger("tailrace.sink")


class Retries:
    """The attempts of one loop."""

    def __init__(self, config: SinkConfig, metrics: SinkMetrics) -> None:
        self._config = config
        self._metrics = metrics
        self._failures = 0
        self._backoff = Backoff(config.retry_backoff_max_s)
        self._batch_before = -1

    def wait_after(
        self, error: SinkError | RegistryError | OSError, batch: int, stop: threading.Event
    ) -> None:
        """Wait before the next attempt, or raise the error again after the last one.

        Args:
            batch: the loop's position. An error after progress starts a new count.
            stop: ends the wait early.

        Raises:
            SinkError: not retryable, or still there after ``apply_attempts``.
            RegistryError: the registry refuses a schema.
        """
        if isinstance(error, OSError):
            error = ApplyFailed("the sink", f"{type(error).__name__}: {error}")
        if isinstance(error, ApplyFailed):
            error = self._of_disk(error)
        if batch != self._batch_before:
            self._failures, self._batch_before = 0, batch
            self._backoff.reset()
        away = KafkaUnavailable | RegistryUnavailable | DiskUnwritable
        waits_outside = isinstance(error, away)
        self._failures += 0 if waits_outside else 1
        if not error.retryable or self._failures >= self._config.apply_attempts:
            raise error
        self._metrics.retries.labels(error=type(error).__name__).inc()
        self._metrics.failed(error, str(error))
        wait_s = self._backoff.next_s()
        _log.warning(
            "retrying",
            error=type(error).__name__,
            reason=str(error),
            attempt=self._failures,
            wait_s=wait_s,
        )
        stop.wait(wait_s)

    def _of_disk(self, error: ApplyFailed) -> SinkError:
        """Return the error of the lake's disk if that is the cause."""
        try:
            require_room(self._config.lake)
        except DiskUnwritable as found:
            return found
        return error
