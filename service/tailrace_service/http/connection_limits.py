"""How many connections a service holds: bounded in all, by address, and in time.

A connection is read first, then answered. A slow client loses its place: reading has one deadline
for the whole request. If all places are taken, a new connection gets the place of the one that has
been read for longest. So clients that dribble bytes keep nobody out: a probe sends its request at
once. Probes are answered on their reading place, everything else on separate places.
"""

from __future__ import annotations

import io
import socket
import threading
import time
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Final

READ_S: Final = 5.0
"""For a whole request: TLS handshake, head and body together."""
WRITE_S: Final = 10.0
"""For a whole answer."""
READING_MAX: Final = 32
READING_OF_ADDRESS_MAX: Final = 16
ANSWERING_MAX: Final = 32
ANSWERING_OF_ADDRESS_MAX: Final = 16


class TimedSocket(io.RawIOBase):
    """A connection whose reads and writes have one deadline together.

    Args:
        deadline: by the monotonic clock.
    """

    def __init__(self, connection: socket.socket, deadline: float) -> None:
        self._connection = connection
        self.deadline = deadline

    def readable(self) -> bool:
        """Whether it can be read, for the stream's reader."""
        return True

    def readinto(self, buffer: Any) -> int:
        """Read what has come, at least a byte; 0 at the end."""
        self._wait()
        return self._connection.recv_into(buffer)

    def write(self, data: Any) -> int:
        """Write all of it."""
        rest = memoryview(data)
        while rest:
            self._wait()
            rest = rest[self._connection.send(rest) :]
        return len(data)

    def _wait(self) -> None:
        left_s = self.deadline - time.monotonic()
        if left_s <= 0:
            raise TimeoutError
        self._connection.settimeout(left_s)


@dataclass(eq=False, slots=True)
class Guest:
    """A connection, from its first byte to its last.

    Attributes:
        deadline: by which its request is read, by the monotonic clock.
    """

    connection: socket.socket
    address: str
    deadline: float = field(default_factory=lambda: time.monotonic() + READ_S)


class Places:
    """The connections that are being read, and those that are being answered."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._reading: dict[Guest, None] = {}
        self._answering: dict[Guest, None] = {}

    def enter(self, guest: Guest) -> None:
        """Begin to read a connection; the one read for longest is shut if all places are taken."""
        with self._lock:
            if _of(guest.address, self._reading) >= READING_OF_ADDRESS_MAX:
                self._shut(other for other in self._reading if other.address == guest.address)
            elif len(self._reading) >= READING_MAX:
                self._shut(self._reading)
            self._reading[guest] = None

    def answer(self, guest: Guest) -> bool:
        """Move a connection to a place for answers; false if there is none for it."""
        with self._lock:
            if (
                len(self._answering) >= ANSWERING_MAX
                or _of(guest.address, self._answering) >= ANSWERING_OF_ADDRESS_MAX
            ):
                return False
            self._reading.pop(guest, None)
            self._answering[guest] = None
            return True

    def leave(self, guest: Guest) -> None:
        """Give up the place."""
        with self._lock:
            self._reading.pop(guest, None)
            self._answering.pop(guest, None)

    def _shut(self, guests: Iterable[Guest]) -> None:
        """Shut the first, whose thread then ends."""
        guest = next(iter(guests))
        del self._reading[guest]
        with suppress(OSError):
            # Not that of SSLSocket, which forgets its TLS state while the thread uses it.
            socket.socket.shutdown(guest.connection, socket.SHUT_RDWR)


def _of(address: str, guests: Iterable[Guest]) -> int:
    return sum(guest.address == address for guest in guests)
