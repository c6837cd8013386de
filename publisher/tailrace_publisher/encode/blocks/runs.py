"""What is the same in many rows of a block: parts by kind, and by runs of equal rows."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tailrace_publisher.encode.blocks.byte_runs import Bytes, Longs, as_bytes, binary, places
from tailrace_publisher.encode.blocks.commit_ms import CommitMilliseconds
from tailrace_publisher.encode.columns.column_forms import Declined
from tailrace_publisher.encode.event_kinds import Kind
from tailrace_schemas.position.lsn import LSN_BYTES

_KINDS = max(Kind) + 1


def of_kinds(parts: Mapping[Any, bytes]) -> Any:
    """The parts of all kinds, for :func:`by_kind`."""
    return binary([parts.get(kind, b"") for kind in range(_KINDS)])


def by_kind(parts: Any, kinds: Longs) -> Any:
    """The part of each event's kind; one for all where there is one kind."""
    if len(kinds) and int(kinds.min()) == int(kinds.max()):
        return parts[int(kinds[0])]
    return parts.take(places(kinds))


def is_inserts(kinds: Longs) -> bool:
    """Whether all events are inserts; not of none."""
    return len(kinds) > 0 and int(kinds.min()) == int(kinds.max()) == Kind.INSERT


def starts_of(cells: Bytes) -> NDArray[np.int64]:
    """Where runs of equal rows begin."""
    differs = np.empty(len(cells), np.bool_)
    differs[:1] = True
    (cells[1:] != cells[:-1]).any(axis=1, out=differs[1:])
    return np.flatnonzero(differs).astype(np.int64)


def commit_runs(positions: Bytes, commit_ms: Mapping[bytes, int]) -> tuple[Bytes, Longs, Longs]:
    """The commits of events in order: LSN and time of each, and how many events it has.

    Args:
        positions: packed positions, rows by bytes.
        commit_ms: commit times in milliseconds UTC by commit LSN.

    Raises:
        Declined: no commit time.
    """
    commits = np.ascontiguousarray(positions[:, :LSN_BYTES])
    starts = starts_of(commits)
    distinct = commits[starts]
    try:
        if isinstance(commit_ms, CommitMilliseconds):
            times = commit_ms.of(distinct)
        else:
            found = map(commit_ms.__getitem__, as_bytes(distinct))
            times = np.fromiter(found, np.int64, len(distinct))
    except KeyError as error:
        raise Declined("no commit time") from error
    return distinct, times, np.diff(starts, append=len(positions))
