"""SIGTERM and SIGINT as an event, without disturbing a call into the ODBC driver.

A signal handler interrupts a blocking call of the main thread. Python resumes the call afterwards,
but the Microsoft ODBC driver does not. Its receive ends in EINTR, and the statement in 08S01,
"Error code 0x2714". So the signals are blocked in all threads, and a separate thread waits for
them.
"""

from __future__ import annotations

import os
import signal
import threading
from typing import Any, Final

_SIGNALS: Final[tuple[signal.Signals, ...]] = (signal.SIGTERM, signal.SIGINT)


class StopSignal:
    """A context whose event is set by the first SIGTERM or SIGINT; the second ends the process.

    Enter it before other threads are started: they and child processes inherit the blocked signals.
    (Earlier threads get the signals, and a handler then does the same.)

    Args:
        hang_up: set by each SIGHUP. Without it, SIGHUP is handled as before. An ignored SIGHUP
            stays ignored, as under nohup.
    """

    def __init__(self, hang_up: threading.Event | None = None) -> None:
        self._hang_up = hang_up
        self._taken = _SIGNALS
        if hang_up is not None and signal.getsignal(signal.SIGHUP) != signal.SIG_IGN:
            self._taken = (*_SIGNALS, signal.SIGHUP)
        self._event = threading.Event()
        self._left = threading.Event()
        self._thread = threading.Thread(target=self._wait, name="signals", daemon=True)
        self._blocked: set[signal.Signals | int] = set()
        self._handlers: dict[signal.Signals, Any] = {}

    def __enter__(self) -> threading.Event:
        for number in self._taken:
            self._handlers[number] = signal.signal(number, self._handled)
        self._blocked = set(signal.pthread_sigmask(signal.SIG_BLOCK, self._taken))
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

    def _handled(self, number: int, _: object) -> None:
        if number == signal.SIGHUP and self._hang_up is not None:
            self._hang_up.set()
        else:
            self._event.set()

    def _wait(self) -> None:
        while True:
            number = signal.sigwait(self._taken)
            if self._left.is_set():
                return
            if number == signal.SIGHUP and self._hang_up is not None:
                self._hang_up.set()
                continue
            if self._event.is_set():
                os._exit(128 + number)
            self._event.set()
