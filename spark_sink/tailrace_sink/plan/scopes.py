"""Delta's application ids of the sink's own tables; their versions say what was last written."""

from __future__ import annotations

from typing import Final

COMMITS: Final = "tailrace-commits"
"""Of the commit table; its version is the newest batch id."""


def log_scope(prefix: str) -> str:
    """Return that of the log of a publisher; its version is a ``Mark``."""
    return f"tailrace-log-{prefix}"
