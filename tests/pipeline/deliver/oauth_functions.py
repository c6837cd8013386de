"""Functions for kafka.oauth_callback: one that has tokens, and some that are of no use."""

from __future__ import annotations

import base64
import json
import time

asked: list[str] = []
"""What :func:`token` was called with."""


def unsigned(lifetime_s: float = 3600) -> tuple[str, float]:
    """A JWT without a signature, and when it expires."""
    now = time.time()
    parts = {"alg": "none"}, {"sub": "tailrace", "iat": now, "exp": now + lifetime_s}
    encoded = (base64.urlsafe_b64encode(json.dumps(p).encode()).rstrip(b"=") for p in parts)
    return ".".join(part.decode() for part in encoded) + ".", now + lifetime_s


def token(config: str) -> tuple[str, float]:
    asked.append(config)
    return unsigned()


def short_lived(config: str) -> tuple[str, float]:
    asked.append(config)
    return unsigned(0.01)


def raising(config: str) -> tuple[str, float]:
    raise PermissionError("the token service says no")


def a_text(config: str) -> str:
    return unsigned()[0]


def expired(config: str) -> tuple[str, float]:
    return unsigned(-1)


def in_milliseconds(config: str) -> tuple[str, float]:
    text, expires_at = unsigned()
    return text, expires_at * 1000


def bytes_for_text(config: str) -> tuple[bytes, float]:
    return unsigned()[0].encode(), unsigned()[1]


def odd_extensions(config: str) -> tuple[object, ...]:
    return (*unsigned(), "tailrace", {"pool": 1})


constant = 7
