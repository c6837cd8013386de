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
class _Logged:
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
        self._logged: dict[str, _Logged] = {}

    def emit(self, record: logging.LogRecord) -> None:
        """Log a line, or count it."""
        text = record.getMessage()
        key = _VARYING.sub("", text)
        now = self._clock()
        logged = self._logged.get(key)
        if logged is not None and now - logged.at < _REPEAT_S:
            logged.since += 1
            return
        if logged is None and len(self._logged) >= _TEXTS_MAX:
            self._logged.clear()
        self._logged[key] = _Logged(now)
        if record.levelno >= logging.ERROR:
            log = _log.error
        elif record.levelno >= logging.WARNING:
            log = _log.warning
        else:
            log = _log.info
        log("kafka_client", text=text, repeated=0 if logged is None else logged.since)


def install_client_log() -> None:
    """Log the Kafka clients' lines as events from now on; idempotent."""
    logger = logging.getLogger(CLIENT_LOGGER)
    if not any(isinstance(handler, ClientLog) for handler in logger.handlers):
        logger.addHandler(ClientLog())
        logger.propagate = False
