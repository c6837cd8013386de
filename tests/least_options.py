"""The least options of a publisher and of a sink, for tests that reach none of its servers."""

from __future__ import annotations

from typing import Any, Final

LEAST: Final[dict[str, Any]] = {
    "source": {"host": "h", "database": "db", "user": "u", "password": "s3cret"},
    "kafka": {"bootstrap": "localhost:9092"},
    "registry": {"url": "http://localhost:8081"},
    "prefix": "air",
}
LEAST_OF_SINK: Final[dict[str, Any]] = {
    **{name: LEAST[name] for name in ("kafka", "registry", "prefix")},
    "lake": "/lake",
}
