"""The Kafka client's log lines as events in the structured log, each text once.

While brokers are away, librdkafka logs so ten times a second for each connection, in its own
format. All clients of the publisher log to one logger of the standard library. This module adds a
handler that turns its lines into events.
"""

from __future__ import annotations

import logging
import re
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

import structlog

CLIENT_LOGGER: Final = "tailrace_publisher.kafka"
_REPEAT_S: Final = 300.0
_TEXTS_MAX: Final = 1000
_VARYING: Final = re.compile(r"\s*\(after [^)]*\)|\d+")

_log = structlog.get_logger(__name__)


@dataclass(slots=True)
class _Told:
    """When a text was last logged, and how often it came since."""

    at: float
    since: int = 0


class ClientLog(logging.Handler):
    """A handler that logs each text of the Kafka client once per five minutes.

    Texts that differ only in numbers (ports, connections, milliseconds) count as one.

    Args:
        clock: returns seconds of a monotonic clock.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        super().__init__()
        self._clock = clock
        self._told: dict[str, _Told] = {}

    def emit(self, record: logging.LogRecord) -> None:
        """Log a line, or count it."""
        text = record.getMessage()
        key = _VARYING.sub("", text)
        now = self._clock()
        told = self._told.get(key)
        if told is not None and now - told.at < _REPEAT_S:
            told.since += 1
            return
        if told is None and len(self._told) >= _TEXTS_MAX:
            self._told.clear()
        self._told[key] = _Told(now)
        if record.levelno >= logging.ERROR:
            tell = _log.error
        elif record.levelno >= logging.WARNING:
            tell = _log.warning
        else:
            tell = _log.info
        tell("kafka_client", text=text, repeated=0 if told is None else told.since)


def take_client_log() -> None:
    """Log the Kafka clients' lines as events from now on; idempotent."""
    logger = logging.getLogger(CLIENT_LOGGER)
    if not any(isinstance(handler, ClientLog) for handler in logger.handlers):
        logger.addHandler(ClientLog())
        logger.propagate = False
