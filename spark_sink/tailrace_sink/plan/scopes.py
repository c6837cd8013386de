"""Delta's application ids of the sink; their versions say what was last written."""

from __future__ import annotations

from typing import Final

COMMITS: Final = "tailrace-commits"
"""Of the commit table; its version is the newest batch id."""


def log_scope(prefix: str) -> str:
    """Return that of the log of a publisher; its version is a ``Mark``."""
    return f"tailrace-log-{prefix}"


def sink_scope(prefix: str) -> str:
    """Return what those of writes to the lake tables of a publisher start with."""
    return f"tailrace-sink-{prefix}"
