"""Where a table's snapshot resumes: the last published key, as text."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence


def write_resume_key(columns: Sequence[str], texts: Sequence[str], where: str | None = None) -> str:
    """Return the form that a checkpoint stores: the columns, and their values in the same order.

    Args:
        columns: the identity of the table.
        texts: the values of the last key.
        where: the condition of the rows; None for all rows.
    """
    found: dict[str, object] = {"columns": list(columns), "values": list(texts)}
    if where is not None:
        found["where_sha256"] = _digest(where)
    return json.dumps(found)


def read_resume_key(
    resume_key: str | None,
    identity: Sequence[str],
    key: Sequence[str],
    where: str | None = None,
) -> list[str] | None:
    """Return the key values to resume after; None to start at the beginning of the table.

    A snapshot starts again if the table is divided by other columns now, because its primary key
    was recreated. Then rows that are published already are published once more. It also starts
    again if the condition of its rows changed, because rows before the key may now match. Former
    versions stored only a list of values, those of the event key.

    Args:
        identity: the columns by which the table is divided now.
        key: the columns of the event key.
        where: the condition now; None for all rows.
    """
    if resume_key is None:
        return None
    found = json.loads(resume_key)
    if isinstance(found, list):
        is_same = tuple(key) == tuple(identity) and len(found) == len(identity)
        return found if is_same and where is None else None
    is_same = found.get("where_sha256") == (None if where is None else _digest(where))
    if tuple(found["columns"]) != tuple(identity) or not is_same:
        return None
    values: list[str] = found["values"]
    return values


def _digest(where: str) -> str:
    """Return a short stand-in for a condition, whose text would enlarge checkpoints."""
    return hashlib.sha256(where.encode()).hexdigest()
