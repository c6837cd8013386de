"""A TCP proxy that a test closes and opens: the part behind it seems to go away and come back."""

from __future__ import annotations

import contextlib
import selectors
import socket
import threading
from collections.abc import Callable
from urllib.parse import urlsplit, urlunsplit


class Proxy:
    """Forwards connections to one address while it is open; closed, it refuses them.

    Args:
        host: where the part behind it listens.
        port: the same.
        rewrite: what becomes of the bytes that the part behind it answers; of the same length.

    Attributes:
        port: where it listens, also after it was closed and opened.
        asked: bytes that were sent to the part behind it.
    """

    def __init__(
        self, host: str, port: int, rewrite: Callable[[bytes], bytes] = lambda answer: answer
    ) -> None:
        self._target = (host, port)
        self.asked = 0
        self._rewrite = rewrite
        self._listener: socket.socket | None = None
        self._pairs: dict[socket.socket, socket.socket] = {}
        self._lock = threading.Lock()
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.port: int = probe.getsockname()[1]

    @classmethod
    def before(cls, url: str) -> tuple[Proxy, str]:
        """A closed proxy for a URL, and the URL that goes through it."""
        parts = urlsplit(url)
        assert parts.hostname is not None
        assert parts.port is not None
        proxy = cls(parts.hostname, parts.port)
        return proxy, urlunsplit(parts._replace(netloc=f"127.0.0.1:{proxy.port}"))

    def open(self) -> None:
        """Let connections through."""
        self._listener = socket.create_server(("127.0.0.1", self.port))
        threading.Thread(target=self._serve, args=(self._listener,), daemon=True).start()

    def close(self) -> None:
        """Refuse new connections and cut the present ones."""
        if self._listener is not None:
            with contextlib.suppress(OSError):
                self._listener.shutdown(socket.SHUT_RDWR)
            self._listener.close()
            self._listener = None
        with self._lock:
            ends = list(self._pairs)
        for end in ends:
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)

    def _serve(self, listener: socket.socket) -> None:
        while True:
            try:
                client, _ = listener.accept()
            except OSError:
                return
            try:
                server = socket.create_connection(self._target)
            except OSError:
                client.close()  # what is behind is away: so is what is before it
                continue
            threading.Thread(target=self._forward, args=(client, server), daemon=True).start()

    def _forward(self, client: socket.socket, server: socket.socket) -> None:
        pair = {client: server, server: client}
        with self._lock:
            self._pairs |= pair
        with selectors.DefaultSelector() as ready, client, server:
            for end in pair:
                ready.register(end, selectors.EVENT_READ)
            with contextlib.suppress(OSError):
                while data := [
                    (pair[key.fileobj], key.fileobj.recv(65536))  # type: ignore[index,union-attr]
                    for key, _ in ready.select()
                ]:
                    if not all(received for _, received in data):
                        break
                    for to, received in data:
                        self.asked += len(received) if to is server else 0
                        to.sendall(self._rewrite(received) if to is client else received)
        with self._lock:
            for end in pair:
                self._pairs.pop(end, None)
