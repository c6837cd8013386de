"""The events of consecutive blocks: the columns from which a writer takes its facts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final

import numpy as np
import pyarrow as pa

from tailrace_publisher.encode.blocks.byte_runs import Flags, Longs, binary, places
from tailrace_publisher.encode.blocks.header import Header
from tailrace_publisher.encode.event_kinds import DELETES

_NO_IMAGE: Final = binary([b""])


@dataclass(frozen=True)
class BlockEvents:
    """Events of change rows, in the order of their positions; no column of theirs is large.

    The row of an update is the one with its after image.

    Attributes:
        images: of all rows, not only of events (Arrow).
        rows: indexes of the events' rows; None if each row is an event.
        commit_ms: in milliseconds UTC; at least of the events' commits.
        processed_ms: in milliseconds UTC; None if the publisher does not say.
    """

    images: Any
    rows: Longs | None
    kinds: Longs
    header: Header
    commit_ms: Mapping[bytes, int]
    processed_ms: int | None

    def __len__(self) -> int:
        return len(self.kinds)

    @cached_property
    def distinct_kinds(self) -> frozenset[int]:
        """The kinds that occur."""
        return frozenset(np.flatnonzero(np.bincount(self.kinds)).tolist())

    @cached_property
    def row_of_each(self) -> Longs:
        """Index of each event's row, also if each row is an event."""
        return np.arange(len(self.kinds)) if self.rows is None else self.rows

    def deletes(self) -> list[int]:
        """Indexes of the events that delete a key."""
        if self.distinct_kinds.isdisjoint(DELETES):
            return []
        found: list[int] = np.flatnonzero(np.isin(self.kinds, list(DELETES))).tolist()
        return found

    def images_of_rows(self) -> Any:
        """The image of each event's row."""
        return self.images if self.rows is None else self.images.take(places(self.rows))

    def images_at(self, rows: Longs, is_there: Flags) -> Any:
        """The images of these rows; empty ones of events that have none."""
        return self._with_none.take(places(np.where(is_there, rows, len(self.images))))

    @cached_property
    def _with_none(self) -> Any:
        return pa.concat_arrays([self.images, _NO_IMAGE])
