"""Signals that the page sends, each with its outcome: accepted, refused and why, or not taken."""

from __future__ import annotations

import threading
import time
from collections import deque
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from confluent_kafka import KafkaException

from tailrace.signals.outcome import outcome_of
from tailrace.signals.request import send
from tailrace_publisher.errors import PublisherError
from tailrace_service.registry.client import RegistryError

if TYPE_CHECKING:
    from tailrace_publisher.options.publisher_config import PublisherConfig
    from tailrace_schemas.records.signals import Signal

_KEPT: Final = 20
_PAUSE_S: Final = 1.0
_LIMIT_S: Final = 60.0


@dataclass(slots=True)
class Requested:
    """One signal.

    Attributes:
        at_ms: when it was sent, milliseconds UTC.
        kind: the outcome as a colour: plain while it waits, then good, warn or bad.
    """

    at_ms: int
    what: str
    offset: int
    outcome: str = "waits for the publisher"
    kind: str = "plain"


class Requests:
    """Sends signals and follows each in a thread of its own, until it is taken or a minute over."""

    def __init__(self, config: PublisherConfig) -> None:
        self._config = config
        self._kept: deque[Requested] = deque(maxlen=_KEPT)
        self._stop = threading.Event()

    def send(self, signal: Signal, what: str) -> Requested:
        """Send one.

        Raises:
            SignalNotTaken: the topic did not take it.
        """
        offset = send(self._config, signal.to_bytes())
        requested = Requested(time.time_ns() // 1_000_000, what, offset)
        self._kept.appendleft(requested)
        threading.Thread(target=self._follow, args=(requested,), daemon=True).start()
        return requested

    def _follow(self, requested: Requested) -> None:
        """Wait for the outcome of one."""
        deadline = time.monotonic() + _LIMIT_S
        with outcome_of(self._config, requested.offset) as outcome:
            while not self._stop.is_set():
                refusals, why = None, "no publisher has taken it"
                try:
                    refusals = outcome.look()
                except (PublisherError, RegistryError, KafkaException) as error:
                    why = f"its outcome cannot be read: {error}"
                if refusals is not None:
                    refused = "; ".join(refusals)
                    requested.kind = "bad" if refused else "good"
                    requested.outcome = f"refused: {refused}" if refused else "accepted"
                    return
                if time.monotonic() > deadline:
                    requested.kind = "warn"
                    requested.outcome = f"{why}; a publisher that starts within seven days takes it"
                    return
                self._stop.wait(_PAUSE_S)

    def newest_first(self) -> tuple[Requested, ...]:
        """Those that are remembered."""
        return tuple(self._kept)

    def close(self) -> None:
        """End all waits."""
        self._stop.set()
