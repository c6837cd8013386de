"""Cancels running statements when the publisher must stop.

A statement may run as long as ``query_timeout_s``, and a stop would wait for it. So a thread waits
for the stop and cancels running statements a second later (SQLCancel), again and again until the
connections are gone. Statements that take less than the second end normally, and so does the
publisher: it commits what it has sent.

https://learn.microsoft.com/sql/odbc/reference/syntax/sqlcancel-function
"""

from __future__ import annotations

import threading
from typing import Final, Protocol
from weakref import WeakSet

from tailrace_publisher.ports import Stop

_LOOK_S: Final = 1.0
_GRACE_S: Final = 1.0
_AGAIN_S: Final = 0.2
_ATTEMPTS_MAX: Final = 300


class Cancellable(Protocol):
    """A connection whose running statement another thread can end."""

    def cancel(self) -> None:
        """Cancel the running statement, if any."""


class Cancelling:
    """Cancels statements of the registered connections after the stop."""

    def __init__(self, stop: Stop) -> None:
        self._stop = stop
        self._connections: WeakSet[Cancellable] = WeakSet()
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None

    def add(self, connection: Cancellable) -> None:
        """Register a connection, for as long as something else refers to it."""
        with self._lock:
            self._connections.add(connection)
            if self._thread is None:
                self._thread = threading.Thread(target=self._watch, name="cancel", daemon=True)
                self._thread.start()

    def _watch(self) -> None:
        while not self._stop.wait(_LOOK_S):
            with self._lock:
                if not self._connections:
                    self._thread = None
                    return
        pause = threading.Event()
        pause.wait(_GRACE_S)
        for _ in range(_ATTEMPTS_MAX):
            with self._lock:
                running = list(self._connections)
            for connection in running:
                connection.cancel()
            if not running:
                return
            del running
            pause.wait(_AGAIN_S)
