"""The transactional ids of publishers, by which the newest publisher of a database fences others.

Prefix and database are joined so that no two pairs have the same id (ADR 0054).
"""

from __future__ import annotations


def transactional_id(prefix: str, database: str) -> str:
    """The transactional id of a database's publisher: its newest holder fences the one before."""
    return "-".join(("tailrace", *map(_escaped, (prefix, database))))


def older_transactional_id(prefix: str, database: str) -> str:
    """The id in releases up to 0.2, where two pairs of prefix and database may share one."""
    return f"tailrace-{prefix}-{database}"


def _escaped(part: str) -> str:
    """A part without the hyphen that joins it."""
    return part.replace("%", "%25").replace("-", "%2D")
