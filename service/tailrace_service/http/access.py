"""Who may call which path of an HTTP service.

A path is open or guarded. With a token, guarded paths require it. Without one they are answered on
a loopback address only, and only under a loopback name. That refuses DNS rebinding: a page of
another site whose name points here sends its own name.

A request that changes something must have ``Content-Type: application/json`` and, if a browser
sends an origin, the page's own. So no form or script of another site can send one.
"""

from __future__ import annotations

import base64
import hmac
import ipaddress
import ssl
import stat
from collections.abc import Iterator
from dataclasses import dataclass, field
from email.message import Message
from http import HTTPStatus
from pathlib import Path
from typing import NamedTuple
from urllib.parse import urlsplit

from tailrace_service.http.messages import Refused
from tailrace_service.http.wrong_tokens import WrongTokens


@dataclass(frozen=True, slots=True)
class Address:
    """Where a service listens, and the token of its guarded paths.

    Attributes:
        port: 0 takes a free one.
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


class Weakness(NamedTuple):
    """A way in which others could learn a secret."""

    reason: str
    fix: str


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


def token_weaknesses(
    host: str, token_file: Path | None, *, is_encrypted: bool
) -> Iterator[Weakness]:
    """Yield ways in which others could learn the token of a service.

    A file of root may be read by its group, as container platforms mount secrets.
    """
    if token_file is None:
        return
    if not is_encrypted and not is_loopback(host):
        yield Weakness(
            f"The token passes {host} unencrypted.",
            "give a certificate, or listen on 127.0.0.1 and let a proxy serve TLS.",
        )
    found = token_file.stat()
    mode = stat.S_IMODE(found.st_mode)
    if mode & (0o037 if found.st_uid == 0 else 0o077):
        yield Weakness(
            f"Others may use {token_file}: its mode is {mode:04o}.", f"chmod 600 {token_file}"
        )


def check_caller(
    address: Address, headers: Message[str, str], client: str, wrong_tokens: WrongTokens
) -> None:
    """Check that a request may have a guarded path.

    Args:
        client: address of the client.

    Raises:
        Refused: it lacks the token, or comes from elsewhere.
    """
    token = address.token
    if token is not None:
        # A browser's first request has none: it is not a guess.
        if "Authorization" not in headers or not wrong_tokens.check(
            client, lambda: has_token(headers, token)
        ):
            raise Refused(
                HTTPStatus.UNAUTHORIZED,
                "give the token: as the password, or as Authorization: Bearer ...",
                {"WWW-Authenticate": 'Basic realm="tailrace", charset="UTF-8"'},
            )
    elif not address.is_loopback:
        raise Refused(
            HTTPStatus.FORBIDDEN,
            "this service is reached from other machines, and has no token: set one"
            " (http_token_file), or let it listen on 127.0.0.1",
        )
    elif not is_loopback(_host_of(headers.get("Host", ""))):
        raise Refused(HTTPStatus.FORBIDDEN, "ask under the name localhost or 127.0.0.1")


def check_own_origin(headers: Message[str, str]) -> None:
    """Check that no other site made a request that changes something.

    Raises:
        Refused: another site may have made it.
    """
    kind = headers.get("Content-Type", "").partition(";")[0].strip()
    if kind != "application/json":
        raise Refused(HTTPStatus.UNSUPPORTED_MEDIA_TYPE, "send Content-Type: application/json")
    origin = headers.get("Origin")
    if origin is not None and urlsplit(origin).netloc != headers.get("Host"):
        raise Refused(HTTPStatus.FORBIDDEN, f"requests from {origin} are not taken")


def has_token(headers: Message[str, str], token: str) -> bool:
    """Whether a request gives the token: as bearer, or as the password of a browser's dialog."""
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
