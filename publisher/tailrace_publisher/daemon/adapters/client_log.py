"""What the Kafka client says, in the structured log, and each thing once.

While brokers are away librdkafka says so ten times a second, by each connection, in lines of its
own shape. All clients of the publisher log to one logger of the standard library; here it gets the
handler that makes events of its lines.
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
    """When a text was last told, and how often it came since."""

    at: float
    since: int = 0


class ClientLog(logging.Handler):
    """Tells each text of the Kafka client once, and again when it still comes after five minutes.

    Texts that differ in numbers only (ports, connections, milliseconds) count as one.

    Args:
        clock: seconds, of any beginning.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        super().__init__()
        self._clock = clock
        self._told: dict[str, _Told] = {}

    def emit(self, record: logging.LogRecord) -> None:
        """Tell a line, or count it."""
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
    """Have the Kafka clients' lines told as events from now on; a second call changes nothing."""
    logger = logging.getLogger(CLIENT_LOGGER)
    if not any(isinstance(handler, ClientLog) for handler in logger.handlers):
        logger.addHandler(ClientLog())
        logger.propagate = False
