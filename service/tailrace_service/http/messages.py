"""Requests and responses of an HTTP service."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from email.message import Message
from http import HTTPStatus
from typing import Any


@dataclass(frozen=True, slots=True)
class Request:
    """A request.

    Attributes:
        query: last value of each name.
        headers: names in any case.
    """

    path: str
    query: Mapping[str, str]
    headers: Message[str, str]
    body: bytes = b""

    @property
    def wants_text(self) -> bool:
        """Whether the client prefers text to JSON."""
        accept = self.headers.get("Accept", "")
        return "text/plain" in accept and "application/json" not in accept


@dataclass(frozen=True, slots=True)
class Response:
    """A response."""

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
        """Plain text, with a newline at its end."""
        return cls(f"{text}\n".encode(), "text/plain; charset=utf-8", status)


class Refused(Exception):
    """A request that is answered with an error.

    Attributes:
        status: of the answer; the exception's text is its body.
        headers: of the answer, in addition to those of every answer.
    """

    def __init__(
        self, status: HTTPStatus, text: str, headers: Mapping[str, str] | None = None
    ) -> None:
        self.status = status
        self.headers = headers or {}
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
