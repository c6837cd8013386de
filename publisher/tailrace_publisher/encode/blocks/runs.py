"""Runs of equal rows in a block: the value of a run is looked up once."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from tailrace_publisher.encode.blocks.byte_runs import Bytes, Longs, as_bytes
from tailrace_publisher.encode.blocks.commit_ms import CommitMilliseconds
from tailrace_publisher.encode.columns.column_forms import Declined
from tailrace_schemas.position.lsn import LSN_BYTES


def starts_of(cells: Bytes) -> NDArray[np.int64]:
    """Find the first row of each run of equal rows."""
    differs = np.empty(len(cells), np.bool_)
    differs[:1] = True
    (cells[1:] != cells[:-1]).any(axis=1, out=differs[1:])
    return np.flatnonzero(differs).astype(np.int64)


def commit_runs(positions: Bytes, commit_ms: Mapping[bytes, int]) -> tuple[Bytes, Longs, Longs]:
    """Find the commits of events in order: LSN and time of each, and the number of its events.

    Args:
        positions: packed positions, rows by bytes.
        commit_ms: commit times in milliseconds UTC by commit LSN.

    Raises:
        Declined: a commit has no time.
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
