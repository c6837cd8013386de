"""A proxy before an object store, which does to requests what networks and busy stores do."""

from __future__ import annotations

import http.client
import re
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import IO, Final, Self
from urllib.parse import urlsplit

_LIMIT_S: Final = 120.0
_BUSY: Final = b"<Error><Code>SlowDown</Code><Message>Slow down</Message></Error>"
_NO_BUCKET: Final = b"<Error><Code>NoSuchBucket</Code><Message>No such bucket</Message></Error>"
_HOP: Final = frozenset({"connection", "transfer-encoding", "expect", "content-length"})


@dataclass(frozen=True)
class Request:
    """One request of a client."""

    method: str
    path: str
    headers: Mapping[str, str]
    body: bytes = b""

    @property
    def is_conditional(self) -> bool:
        return any(name.lower() == "if-none-match" for name in self.headers)


@dataclass(frozen=True)
class Answer:
    """What the store said."""

    status: int
    headers: Mapping[str, str]
    body: bytes


Pass = Callable[[], Answer]
Rule = Callable[[Request, Pass], Answer | None]
"""Answers a request, with the store's answer if it passes the request on; None cuts the line."""


def straight(_request: Request, pass_on: Pass) -> Answer:
    return pass_on()


def busy() -> Answer:
    return Answer(503, {"Content-Type": "application/xml", "Retry-After": "0"}, _BUSY)


def denied(_request: Request, _pass_on: Pass) -> Answer:
    return Answer(403, {"Content-Type": "application/xml"}, b"<Error/>")


def without_bucket(_request: Request, _pass_on: Pass) -> Answer:
    """What AWS answers to a request for a bucket that does not exist."""
    return Answer(404, {"Content-Type": "application/xml"}, _NO_BUCKET)


class Held:
    """Holds the first conditional PUT of a path until it is let go."""

    def __init__(self, path: str) -> None:
        self._path = re.compile(path)
        self._is_taken = threading.Lock()
        self.arrived = threading.Event()
        self.go = threading.Event()

    def __call__(self, request: Request, pass_on: Pass) -> Answer:
        is_it = request.method == "PUT" and self._path.search(request.path)
        if is_it and self._is_taken.acquire(blocking=False):
            self.arrived.set()
            assert self.go.wait(_LIMIT_S), "nobody let the request go"
        return pass_on()


class BusyFor:
    """Answers 503 to the requests of a kind, for some time from the first one on.

    Args:
        seconds: how long.
        path: what such a request's path has; a regular expression.
        methods: of such requests.
    """

    def __init__(self, seconds: float, path: str = "", methods: str = "GET HEAD PUT POST") -> None:
        self._seconds = seconds
        self._path = re.compile(path)
        self._methods = methods.split()
        self._began: float | None = None
        self.refused = 0

    def __call__(self, request: Request, pass_on: Pass) -> Answer:
        path = request.path.partition("?")[0]
        if request.method in self._methods and self._path.search(path):
            now = time.monotonic()
            self._began = now if self._began is None else self._began
            if now - self._began < self._seconds:
                self.refused += 1
                return busy()
        return pass_on()


class Proxy:
    """Passes requests on to a store, by a rule that a test may change at any time.

    Attributes:
        rule: what becomes of a request.
        seen: requests so far.
    """

    def __init__(self, store: str) -> None:
        self.rule: Rule = straight
        self.seen: list[Request] = []
        address = urlsplit(store).netloc
        proxy = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def answer(self) -> None:
                body = _body(self.headers, self.rfile)
                request = Request(self.command, self.path, dict(self.headers), body)
                proxy.seen.append(request)

                def pass_on() -> Answer:
                    line = http.client.HTTPConnection(address, timeout=_LIMIT_S)
                    try:
                        line.request(self.command, self.path, body, _kept(self.headers))
                        found = line.getresponse()
                        return Answer(found.status, dict(found.headers), found.read())
                    finally:
                        line.close()

                found = proxy.rule(request, pass_on)
                if found is None:
                    self.close_connection = True
                    return
                self.send_response(found.status)
                for name, value in _kept(found.headers).items():
                    self.send_header(name, value)
                is_head = self.command == "HEAD"
                length = found.headers.get("Content-Length") if is_head else len(found.body)
                self.send_header("Content-Length", str(length or 0))
                self.end_headers()
                self.wfile.write(b"" if is_head else found.body)

            do_GET = do_PUT = do_POST = do_DELETE = do_HEAD = answer  # noqa: N815

            def log_message(self, *_: object) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_port}"

    def puts(self, path: str) -> int:
        """How often a path was written, or tried to be."""
        found = (request for request in self.seen if request.method == "PUT")
        return sum(1 for request in found if re.search(path, request.path))

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self,
        _type: type[BaseException] | None,
        _error: BaseException | None,
        _trace: TracebackType | None,
    ) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join(30)


def _body(headers: Mapping[str, str], stream: IO[bytes]) -> bytes:
    """Read the body of a request; of chunks where its length is not known (RFC 9112, 7.1)."""
    if headers.get("Transfer-Encoding", "").lower() != "chunked":
        return stream.read(int(headers.get("Content-Length") or 0))
    body = b""
    while size := int(stream.readline().partition(b";")[0], 16):
        body += stream.read(size)
        stream.readline()
    while stream.readline().strip():
        pass  # trailers, which are part of what AWS's chunks sign, not of the body
    return body


def _kept(headers: Mapping[str, str]) -> dict[str, str]:
    return {name: value for name, value in headers.items() if name.lower() not in _HOP}
