"""Where the snapshot of a table goes on: the last key that was published, as text."""

from __future__ import annotations

import json
from collections.abc import Sequence


def write_resume_key(columns: Sequence[str], texts: Sequence[str]) -> str:
    """The form that a checkpoint keeps: which columns, and their values in the same order."""
    return json.dumps({"columns": list(columns), "values": list(texts)})


def read_resume_key(
    resume_key: str | None, identity: Sequence[str], key: Sequence[str]
) -> list[str] | None:
    """The values behind which to go on; None to begin at the start of the table.

    A table that is cut by other columns now (its primary key was made anew) begins again: what was
    published of it is published once more. The form of former versions is a list of values alone,
    those of the event key.

    Args:
        resume_key: as the checkpoint has it.
        identity: the columns that the table is cut by now.
        key: the columns of its event key.
    """
    if resume_key is None:
        return None
    found = json.loads(resume_key)
    if isinstance(found, list):
        return found if tuple(key) == tuple(identity) and len(found) == len(identity) else None
    if tuple(found["columns"]) != tuple(identity):
        return None
    values: list[str] = found["values"]
    return values
