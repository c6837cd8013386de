"""A small HTTP service in a program that does other work: fixed paths, short answers, loopback.

Both daemons and the web page use it. One thread accepts connections, and one more answers each.
``connection_limits`` decides how many and for how long, ``access`` who may call which path.
"""

from __future__ import annotations

import io
import socket
import ssl
import sys
import threading
import time
from dataclasses import replace
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from socketserver import TCPServer
from typing import Any, Final, cast
from urllib.parse import parse_qs, urlsplit

import structlog

from tailrace_service.closing import Closing
from tailrace_service.http.access import Address, check_caller, check_own_origin
from tailrace_service.http.connection_limits import WRITE_S, Guest, Places, TimedSocket
from tailrace_service.http.messages import Refused, Request, Response, Routes
from tailrace_service.http.wrong_tokens import WrongTokens

BODY_MAX: Final = 64 * 1024
"""Bytes of a request's body."""
_PROBES: Final = ("/health", "/ready")
"""Paths, also below another, that are answered however many clients wait for other answers."""

_log = structlog.get_logger(__name__)


class HttpService(Closing):
    """Answers until closed.

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
        """Stop listening; started answers are finished, or lost with the process."""
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False

    def __init__(self, address: Address, routes: Routes) -> None:
        self.address = address
        self.routes = routes
        self.places = Places()
        self.wrong_tokens = WrongTokens()
        found = socket.getaddrinfo(
            address.host, address.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )
        self.address_family, *_, where = found[0]  # version 4 or 6, as the address is
        super().__init__((str(where[0]), int(where[1])), _Handler)

    def server_bind(self) -> None:
        # Not HTTPServer's, which asks for the name of the address: seconds, where none is known.
        TCPServer.server_bind(self)

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        guest = Guest(request, str(client_address[0]))
        self.places.enter(guest)
        try:
            if self.address.tls is not None:  # here, so that a slow handshake keeps nobody waiting
                _shake_hands(guest, self.address.tls)
            _Handler(guest, client_address, self)
        except Exception:  # noqa: BLE001 - logged there, unless it is the client's
            self.handle_error(guest.connection, client_address)
        finally:
            self.places.leave(guest)
            self.shutdown_request(guest.connection)

    def handle_error(self, request: Any, client_address: Any) -> None:  # noqa: ARG002 - inherited
        """Log what is not a client that went away, or was too slow."""
        if not isinstance(sys.exception(), OSError):
            _log.exception("http_connection_failed", client=client_address[0])


def _shake_hands(guest: Guest, tls: ssl.SSLContext) -> None:
    """Begin TLS, within the time of the request."""
    guest.connection.settimeout(max(0.001, guest.deadline - time.monotonic()))
    connection = tls.wrap_socket(guest.connection, server_side=True, do_handshake_on_connect=False)
    guest.connection = connection  # the plain one is empty now
    connection.do_handshake()


class _Handler(BaseHTTPRequestHandler):
    server: _Server
    server_version = "tailrace"
    sys_version = ""

    def __init__(self, guest: Guest, client_address: Any, server: _Server) -> None:
        self._guest = guest
        super().__init__(guest.connection, client_address, server)

    def setup(self) -> None:
        self.connection = self.request
        self._timed = TimedSocket(self.request, self._guest.deadline)
        self.rfile = io.BufferedReader(self._timed)
        self.wfile = cast("io.BufferedIOBase", self._timed)

    def do_GET(self) -> None:
        self._do("GET")

    def do_HEAD(self) -> None:
        self._do("GET")

    def do_POST(self) -> None:
        self._do("POST")

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - as it is inherited
        """Log nothing: scrapes come every few seconds."""

    def _do(self, method: str) -> None:
        try:
            response = self._answer(method)
        except Refused as refused:
            response = Response.of_text(str(refused), refused.status)
            response = replace(response, headers=refused.headers)
        self._timed.deadline = time.monotonic() + WRITE_S
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
            server = self.server
            check_caller(server.address, self.headers, self._guest.address, server.wrong_tokens)
        if method == "POST":
            check_own_origin(self.headers)
        query = {
            name: values[-1]
            for name, values in parse_qs(parts.query, keep_blank_values=True).items()
        }
        request = Request(parts.path, query, self.headers, self._body())
        if not parts.path.endswith(_PROBES) and not self.server.places.answer(self._guest):
            raise Refused(HTTPStatus.SERVICE_UNAVAILABLE, "too many requests at once: try again")
        try:
            return route.answer(request)
        except Refused:
            raise
        except Exception as error:
            _log.exception("http_route_failed", method=method, path=parts.path)
            told = f"{type(error).__name__}: the log has the details"
            raise Refused(HTTPStatus.INTERNAL_SERVER_ERROR, told) from error

    def _body(self) -> bytes:
        text = self.headers.get("Content-Length", "0")
        if not text.isascii() or not text.isdigit() or int(text) > BODY_MAX:
            raise Refused(
                HTTPStatus.REQUEST_ENTITY_TOO_LARGE, f"a body has {BODY_MAX} bytes at most"
            )
        return self.rfile.read(int(text))
