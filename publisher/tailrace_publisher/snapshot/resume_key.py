"""Where the snapshot of a table goes on: the last key that was published, as text."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence


def write_resume_key(columns: Sequence[str], texts: Sequence[str], where: str | None = None) -> str:
    """The form that a checkpoint keeps: which columns, and their values in the same order.

    Args:
        columns: that the table is cut by.
        texts: of the last key.
        where: the condition of the rows that are read; None for all of them.
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
    """The values behind which to go on; None to begin at the start of the table.

    A table that is cut by other columns now (its primary key was made anew) begins again: what was
    published of it is published once more. So does one of which other rows are read now: some of
    them may be before the key. The form of former versions is a list of values alone, those of the
    event key.

    Args:
        resume_key: as the checkpoint has it.
        identity: the columns that the table is cut by now.
        key: the columns of its event key.
        where: the condition of the rows that are read now; None for all of them.
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
    """Of a condition, whose text would make checkpoints large."""
    return hashlib.sha256(where.encode()).hexdigest()
