"""How a command that starts a Java virtual machine is stopped."""

from __future__ import annotations

import signal
import threading
from typing import Any


class StopOnSignal:
    """Set an event at the first SIGTERM or SIGINT; leave the second one to Python.

    For a process that starts a Java virtual machine: it would inherit the signals that StopSignal
    blocks.
    """

    def __init__(self) -> None:
        self._event = threading.Event()
        self._previous: dict[int, Any] = {}

    def __enter__(self) -> threading.Event:
        for number in (signal.SIGTERM, signal.SIGINT):
            self._previous[number] = signal.signal(number, self._stop)
        return self._event

    def _stop(self, number: int, _frame: object) -> None:
        self._event.set()
        signal.signal(number, self._previous[number])

    def __exit__(self, *_: object) -> None:
        for number, handler in self._previous.items():
            signal.signal(number, handler)
