"""Which files one run of compaction rewrites. Pure.

The fold waits for a run, so its bytes are bounded; the next run continues.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

DELETED_SHARE: Final = 0.3
"""Share of deleted rows from which a file is rewritten: more rows are stored than 1.5 times."""
RUN_BYTES_MAX: Final = 512 * 1024 * 1024
"""Bytes of small files, and of files with deleted rows, that one run rewrites."""


@dataclass(frozen=True, slots=True)
class DataFile:
    """A file of a table; ``deleted`` is the share of its rows that a deletion vector removes."""

    bytes: int
    deleted: float


@dataclass(frozen=True, slots=True)
class Choice:
    """Files to rewrite.

    Attributes:
        below: size in bytes below which files are combined; 0: none are.
        deleted_above: share of deleted rows above which a file is rewritten; 1: none is.
        files: number of files that were chosen.
    """

    below: int
    deleted_above: float
    files: int


def chosen(
    files: Iterable[DataFile], small_bytes: int, files_min: int, bytes_max: int
) -> Choice | None:
    """Choose the smallest files of a table, and those with the most deleted rows; None: none.

    Args:
        small_bytes: size below which a file is small.
        files_min: least number of small files that are combined.
        bytes_max: of the small files, and again of those with deleted rows. A single file with
            deleted rows may be larger.
    """
    files = list(files)
    sizes = sorted(file.bytes for file in files if file.bytes < small_bytes)
    small = files_within(sizes, bytes_max)
    if small < max(2, files_min):
        small = 0
    below = sizes[small - 1] + 1 if small else 0
    emptied = sorted(
        (file for file in files if file.bytes >= below and file.deleted > DELETED_SHARE),
        key=lambda file: -file.deleted,
    )
    purged = files_within([file.bytes for file in emptied], bytes_max)
    if emptied and not purged and not small:
        purged = 1  # A file that is larger than the bound is rewritten alone.
    if not small and not purged:
        return None
    # Files with a larger share than this are rewritten; shares may be equal.
    share = max(DELETED_SHARE, emptied[purged - 1].deleted - 1e-9) if purged else 1.0
    return Choice(below, share, small + purged)


def files_within(sizes: Sequence[int], bytes_max: int) -> int:
    """Count how many files, smallest first, are together at most some bytes."""
    total = 0
    for index, size in enumerate(sizes):
        total += size
        if total > bytes_max:
            return index
    return len(sizes)
