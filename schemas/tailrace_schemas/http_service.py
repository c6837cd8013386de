"""A small HTTP service beside a program's work: fixed paths, short answers, loopback by default.

For what both daemons and the web page serve. A thread takes connections and one more answers each,
up to :data:`AT_ONCE_MAX`; none of them outlives a silent client by more than :data:`SILENT_S`.
Who may ask for what is said by ``http_access``.
"""

from __future__ import annotations

import socket
import threading
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from socketserver import TCPServer
from types import TracebackType
from typing import Any, Final, Self
from urllib.parse import parse_qs, urlsplit

from tailrace_schemas.http_access import Address, check_caller, check_own_origin
from tailrace_schemas.http_messages import Refused, Request, Response, Routes

AT_ONCE_MAX: Final = 32
SILENT_S: Final = 10.0
BODY_MAX: Final = 64 * 1024
"""Bytes of a request's body."""


class HttpService:
    """Answers until closed.

    Args:
        address: where.
        routes: what.

    Attributes:
        port: where it listens.

    Raises:
        OSError: the address cannot be listened on.
    """

    def __init__(self, address: Address, routes: Routes) -> None:
        self._server = _Server(address, routes)
        self.port = int(self._server.server_address[1])
        self._thread = threading.Thread(
            target=self._server.serve_forever, args=(0.1,), name="http", daemon=True
        )
        self._thread.start()

    def close(self) -> None:
        """Stop listening; answers that were begun are finished or lost with the process."""
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False

    def __init__(self, address: Address, routes: Routes) -> None:
        self.address = address
        self.routes = routes
        self._free = threading.BoundedSemaphore(AT_ONCE_MAX)
        found = socket.getaddrinfo(
            address.host, address.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )
        self.address_family, *_, where = found[0]  # version 4 or 6, as the address is
        super().__init__((str(where[0]), int(where[1])), _Handler)

    def server_bind(self) -> None:
        # Not HTTPServer's, which asks for the name of the address: seconds, where none is known.
        TCPServer.server_bind(self)

    def process_request(self, request: Any, client_address: Any) -> None:
        if not self._free.acquire(blocking=False):
            self.shutdown_request(request)
            return
        super().process_request(request, client_address)

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        try:
            if self.address.tls is not None:  # here, so that a slow handshake keeps nobody waiting
                request.settimeout(SILENT_S)
                request = self.address.tls.wrap_socket(request, server_side=True)
            super().process_request_thread(request, client_address)
        except OSError:  # of the handshake
            self.shutdown_request(request)
        finally:
            self._free.release()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that went away is nobody's trouble."""


class _Handler(BaseHTTPRequestHandler):
    server: _Server
    timeout = SILENT_S
    server_version = "tailrace"
    sys_version = ""

    def do_GET(self) -> None:
        self._do("GET")

    def do_HEAD(self) -> None:
        self._do("GET")

    def do_POST(self) -> None:
        self._do("POST")

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - as it is inherited
        """Scrapes every few seconds are not told."""

    def _do(self, method: str) -> None:
        try:
            response = self._answer(method)
        except Refused as refused:
            response = Response.of_text(str(refused), refused.status)
            if refused.status is HTTPStatus.UNAUTHORIZED:
                response = Response(
                    response.body,
                    response.content_type,
                    response.status,
                    {"WWW-Authenticate": 'Basic realm="tailrace", charset="UTF-8"'},
                )
        self.send_response(response.status)
        fixed = {
            "Content-Type": response.content_type,
            "Content-Length": str(len(response.body)),
            "Cache-Control": "no-store",
            "X-Content-Type-Options": "nosniff",
        }
        for name, value in {**fixed, **response.headers}.items():
            self.send_header(name, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(response.body)

    def _answer(self, method: str) -> Response:
        parts = urlsplit(self.path)
        routes = self.server.routes
        route = routes.get((method, parts.path))
        if route is None:
            known = sorted(f"{method} {path}" for method, path in routes)
            if any(path == parts.path for _, path in routes):
                raise Refused(
                    HTTPStatus.METHOD_NOT_ALLOWED, f"{method} is not for {parts.path}: {known}"
                )
            raise Refused(HTTPStatus.NOT_FOUND, f"no such path; there are {', '.join(known)}")
        if not route.is_open:
            check_caller(self.server.address, self.headers)
        if method == "POST":
            check_own_origin(self.headers)
        query = {name: values[-1] for name, values in parse_qs(parts.query).items()}
        return route.answer(Request(parts.path, query, self.headers, self._body()))

    def _body(self) -> bytes:
        text = self.headers.get("Content-Length", "0")
        if not text.isascii() or not text.isdigit() or int(text) > BODY_MAX:
            raise Refused(
                HTTPStatus.REQUEST_ENTITY_TOO_LARGE, f"a body has {BODY_MAX} bytes at most"
            )
        return self.rfile.read(int(text))
