"""Turns at the interpreter: short requests run one after the other instead of through each other.

Python runs one thread at a time, and a thread that calls SQLite lets others in. With several busy
connections every such call then ends in a wait for the interpreter. Eight writers of single rows
took twice the processor time of one (measured). So a request takes a turn before it runs, and the
others wait for it in the operating system.

A turn is advice, never a lock that anything relies on. A request that is going to wait (for a lock,
in WAITFOR, for a client that reads slowly) gives its turn back. One that has lasted for longer than
a short request takes has lost it: the next one takes a new turn alongside it. So nothing can come
to a stop by it.

One for the process, as the interpreter is.
"""

from __future__ import annotations

import threading
import time
from typing import Final

SHORT_S: Final = 0.02
"""A request that has run for so long is not waited for; a scan of some hundred changes is over."""
WAIT_MAX_S: Final = 0.2
"""The longest wait for short requests, however many there are."""


class _Turn:
    """The turn at a time: its holder, and since when (time.monotonic())."""

    __slots__ = ("holder", "lock", "since")

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.holder = 0
        self.since = time.monotonic()


class Turns:
    """Who runs, among threads that ask."""

    def __init__(self) -> None:
        self._turn = _Turn()
        self._replacing = threading.Lock()

    def take(self) -> bool:
        """Wait for a turn, briefly.

        Returns:
            Whether this thread got the turn; it may run either way.
        """
        turn = self._turn
        if not turn.lock.acquire(blocking=False):
            waited = self._wait()
            if waited is None:
                return False
            turn = waited
        turn.since = time.monotonic()
        turn.holder = threading.get_ident()
        return True

    def give(self) -> None:
        """Give the turn back, if this thread holds it."""
        turn = self._turn
        if turn.holder == threading.get_ident():
            turn.holder = 0
            turn.lock.release()

    def _wait(self) -> _Turn | None:
        now = time.monotonic()
        limit = now + WAIT_MAX_S
        while now < limit:
            turn = self._turn
            if now - turn.since >= SHORT_S:
                turn = self._replaced(turn)
            if turn.lock.acquire(timeout=SHORT_S):
                if turn is self._turn:
                    return turn
                turn.lock.release()
            now = time.monotonic()
        return None

    def _replaced(self, lasting: _Turn) -> _Turn:
        """The turn after one that has lasted too long; its holder runs on without."""
        with self._replacing:
            if self._turn is lasting:
                self._turn = _Turn()
            return self._turn


turns: Final = Turns()
"""The process's."""
