"""A small HTTP service beside a program's work: fixed paths, short answers, loopback by default.

For what both daemons and the web page serve. A thread takes connections and one more answers each,
up to :data:`AT_ONCE_MAX`; none of them outlives a silent client by more than :data:`SILENT_S`.

Who may ask: a path is open, or guarded. With a token, guarded paths need it. Without one they are
answered on a loopback address only, and only under a loopback name: a page of another site whose
name was made to point here (DNS rebinding) asks under its own. A request that changes something
must say ``Content-Type: application/json`` and, where a browser sends it, come from the page's own
origin, so that no form or script of another site can make one.
"""

from __future__ import annotations

import base64
import hmac
import ipaddress
import json
import socket
import ssl
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from email.message import Message
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from socketserver import TCPServer
from types import TracebackType
from typing import Any, Final, Self
from urllib.parse import parse_qs, urlsplit

AT_ONCE_MAX: Final = 32
SILENT_S: Final = 10.0
BODY_MAX: Final = 64 * 1024
"""Bytes of a request's body."""


@dataclass(frozen=True, slots=True)
class Request:
    """What was asked.

    Attributes:
        path: without the query.
        query: last value of each name.
        headers: names in any case.
        body: of a POST.
    """

    path: str
    query: Mapping[str, str]
    headers: Message[str, str]
    body: bytes = b""

    @property
    def wants_text(self) -> bool:
        """Whether the client asks for text rather than JSON."""
        accept = self.headers.get("Accept", "")
        return "text/plain" in accept and "application/json" not in accept


@dataclass(frozen=True, slots=True)
class Response:
    """What is answered."""

    body: bytes
    content_type: str = "application/json; charset=utf-8"
    status: HTTPStatus = HTTPStatus.OK
    headers: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def of_json(cls, value: Any, status: HTTPStatus = HTTPStatus.OK) -> Response:
        """A value as JSON."""
        return cls(json.dumps(value, ensure_ascii=False).encode(), status=status)

    @classmethod
    def of_text(cls, text: str, status: HTTPStatus = HTTPStatus.OK) -> Response:
        """Plain text; a newline is put behind it."""
        return cls(f"{text}\n".encode(), "text/plain; charset=utf-8", status)


class Refused(Exception):
    """A request that is answered with an error.

    Attributes:
        status: of the answer; the exception's text is its body.
    """

    def __init__(self, status: HTTPStatus, text: str) -> None:
        self.status = status
        super().__init__(text)


@dataclass(frozen=True, slots=True)
class Route:
    """What a path answers.

    Attributes:
        answer: called in a thread of the service; :class:`Refused` becomes its status and text.
        is_open: whether anybody may ask.
    """

    answer: Callable[[Request], Response]
    is_open: bool = False


Routes = Mapping[tuple[str, str], Route]
"""By method and path."""


@dataclass(frozen=True, slots=True)
class Address:
    """Where a service listens, and with which token its guarded paths are asked.

    Attributes:
        port: 0 takes a free one.
        host: address or name.
        token: None where there is none.
        tls: the certificate to show; None for plain HTTP.
    """

    port: int
    host: str = "127.0.0.1"
    token: str | None = field(default=None, repr=False)
    tls: ssl.SSLContext | None = None

    @property
    def scheme(self) -> str:
        """Of its URL: http or https."""
        return "http" if self.tls is None else "https"

    @property
    def is_loopback(self) -> bool:
        """Whether only this machine reaches it."""
        return is_loopback(self.host)


def is_loopback(host: str) -> bool:
    """Whether a name or address means this machine."""
    name = host.strip("[]")
    if name.casefold() == "localhost":
        return True
    try:
        return ipaddress.ip_address(name).is_loopback
    except ValueError:
        return False


def read_token(path: Path | None) -> str | None:
    """The token in the first line of a file; None of no file.

    Raises:
        ValueError: the file cannot be read, or the token is shorter than 16 characters.
    """
    if path is None:
        return None
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except OSError as error:
        raise ValueError(f"{path}: {error.strerror}; make it readable") from error
    token = lines[0].strip() if lines else ""
    if len(token) < 16:
        raise ValueError(f"{path}: its first line must be a token of 16 characters or more")
    return token


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
            self._check_caller()
        if method == "POST":
            self._check_own_origin()
        query = {name: values[-1] for name, values in parse_qs(parts.query).items()}
        return route.answer(Request(parts.path, query, self.headers, self._body()))

    def _check_caller(self) -> None:
        address = self.server.address
        if address.token is not None:
            if not has_token(self.headers, address.token):
                raise Refused(
                    HTTPStatus.UNAUTHORIZED,
                    "give the token: as the password, or as Authorization: Bearer ...",
                )
        elif not address.is_loopback:
            raise Refused(
                HTTPStatus.FORBIDDEN,
                "this service is reached from other machines, and has no token: set one"
                " (http_token_file), or let it listen on 127.0.0.1",
            )
        elif not is_loopback(_host_of(self.headers.get("Host", ""))):
            raise Refused(HTTPStatus.FORBIDDEN, "ask under the name localhost or 127.0.0.1")

    def _check_own_origin(self) -> None:
        kind = self.headers.get("Content-Type", "").partition(";")[0].strip()
        if kind != "application/json":
            raise Refused(HTTPStatus.UNSUPPORTED_MEDIA_TYPE, "send Content-Type: application/json")
        origin = self.headers.get("Origin")
        if origin is not None and urlsplit(origin).netloc != self.headers.get("Host"):
            raise Refused(HTTPStatus.FORBIDDEN, f"requests from {origin} are not taken")

    def _body(self) -> bytes:
        text = self.headers.get("Content-Length", "0")
        if not text.isascii() or not text.isdigit() or int(text) > BODY_MAX:
            raise Refused(
                HTTPStatus.REQUEST_ENTITY_TOO_LARGE, f"a body has {BODY_MAX} bytes at most"
            )
        return self.rfile.read(int(text))


def has_token(headers: Message[str, str], token: str) -> bool:
    """Whether a request gives the token: as bearer, or as the password that a browser asks for."""
    kind, _, given = headers.get("Authorization", "").partition(" ")
    if kind == "Basic":
        try:
            given = base64.b64decode(given, validate=True).decode().partition(":")[2]
        except ValueError:
            return False
    elif kind != "Bearer":
        return False
    return hmac.compare_digest(given.encode(), token.encode())


def _host_of(header: str) -> str:
    """The name in a Host header, without its port."""
    try:
        return urlsplit(f"//{header}").hostname or ""
    except ValueError:
        return ""
