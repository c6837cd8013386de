"""Commit times of a window as columns: there may be one for every event."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cached_property
from typing import Any, TypeVar, overload

import numpy as np

from tailrace_publisher.encode.blocks.byte_runs import Bytes, Longs, as_bytes
from tailrace_schemas.position.lsn import LSN_BYTES

_Default = TypeVar("_Default")


class CommitMilliseconds(Mapping[bytes, int]):
    """Commit times in milliseconds UTC, by the ten bytes of the commit LSN.

    Args:
        lsns: ascending, rows by bytes.
        times: one for each LSN.
    """

    def __init__(self, lsns: Bytes, times: Longs) -> None:
        self._lsns = _texts(lsns)
        self._times = times

    def of(self, lsns: Bytes) -> Longs:
        """Return the times of commits, ascending, rows by bytes.

        Raises:
            KeyError: a commit is not among them.
        """
        wanted = _texts(lsns)
        start = int(np.searchsorted(self._lsns, wanted[:1])[0]) if len(wanted) else 0
        # Mostly they are all of those between the first and the last.
        at: Any = slice(start, start + len(wanted))
        if not np.array_equal(self._lsns[at], wanted):
            at = np.searchsorted(self._lsns, wanted)
            at = np.minimum(at, len(self._lsns) - 1)
            if not len(self._lsns) or (self._lsns[at] != wanted).any():
                raise KeyError("no commit time")
        times: Longs = self._times[at]
        return times

    @overload
    def get(self, key: bytes, /) -> int | None: ...
    @overload
    def get(self, key: bytes, /, default: int) -> int: ...
    @overload
    def get(self, key: bytes, /, default: _Default) -> int | _Default: ...
    def get(self, key: bytes, /, default: Any = None) -> Any:
        """One time: a search, for those who ask for few."""
        at = int(np.searchsorted(self._lsns, np.bytes_(key)))
        found = at < len(self._lsns) and len(key) == LSN_BYTES and self._lsns[at] == _text(key)
        return int(self._times[at]) if found else default

    def __getitem__(self, key: bytes) -> int:
        """Return one time, for callers that need all."""
        return self._by_lsn[key]

    def __iter__(self) -> Iterator[bytes]:
        """Iterate over the LSNs."""
        return iter(self._by_lsn)

    def __len__(self) -> int:
        return len(self._lsns)

    @cached_property
    def _by_lsn(self) -> dict[bytes, int]:
        raw = self._lsns.view(np.uint8).reshape(-1, LSN_BYTES)
        return dict(zip(as_bytes(raw), self._times.tolist(), strict=True))


def _texts(lsns: Bytes) -> Any:
    """Convert to a form that NumPy can order; it drops trailing zeros, consistently."""
    return np.ascontiguousarray(lsns).view(f"S{LSN_BYTES}").reshape(-1)


def _text(lsn: bytes) -> Any:
    return np.bytes_(lsn.rstrip(b"\0"))
