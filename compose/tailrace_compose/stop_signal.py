"""SIGTERM and SIGINT as an event, without disturbing a call into the ODBC driver.

A signal handler interrupts what the main thread waits for. Python goes on after that, the Microsoft
ODBC driver does not: its receive ends in EINTR, and the statement in 08S01, "Error code 0x2714". So
the signals are blocked in all threads, and one thread of its own waits for them.
"""

from __future__ import annotations

import os
import signal
import threading
from typing import Any, Final

_SIGNALS: Final = (signal.SIGTERM, signal.SIGINT)


class StopSignal:
    """A context whose event is set by the first SIGTERM or SIGINT; the second ends the process.

    Enter it before other threads are started: they inherit what is blocked, as child processes do.
    (What was started before gets the signals, and a handler then does the same.)
    """

    def __init__(self) -> None:
        self._event = threading.Event()
        self._left = threading.Event()
        self._thread = threading.Thread(target=self._wait, name="signals", daemon=True)
        self._blocked: set[signal.Signals | int] = set()
        self._handlers: dict[signal.Signals, Any] = {}

    def __enter__(self) -> threading.Event:
        for number in _SIGNALS:
            self._handlers[number] = signal.signal(number, lambda *_: self._event.set())
        self._blocked = set(signal.pthread_sigmask(signal.SIG_BLOCK, _SIGNALS))
        self._thread.start()
        return self._event

    def __exit__(self, *_: object) -> None:
        self._left.set()
        if self._thread.is_alive() and self._thread.ident is not None:
            signal.pthread_kill(self._thread.ident, signal.SIGTERM)
            self._thread.join()
        signal.pthread_sigmask(signal.SIG_SETMASK, self._blocked)
        for number, handler in self._handlers.items():
            signal.signal(number, handler)

    def _wait(self) -> None:
        while True:
            number = signal.sigwait(_SIGNALS)
            if self._left.is_set():
                return
            if self._event.is_set():
                os._exit(128 + number)
            self._event.set()
