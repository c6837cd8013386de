"""A column of a block as the driver fills it, and the type of a kernel that encodes it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from tailrace_publisher.encode.blocks.byte_runs import Bytes, Flags, Longs

NULL_LENGTH: Final = -1
"""SQL_NULL_DATA, the length of NULL."""


@dataclass(frozen=True, slots=True)
class Cells:
    """A column of a block.

    Attributes:
        data: rows by bytes of a cell.
        lengths: bytes of each value, ``NULL_LENGTH`` for NULL.
    """

    data: Bytes
    lengths: Longs

    @property
    def nulls(self) -> Flags | None:
        """Flags of the rows that are NULL; None if no row is."""
        nulls = self.lengths == NULL_LENGTH
        return nulls if nulls.any() else None


Kernel = Callable[[Cells], tuple[Any, ...]]
"""Makes the arrays that, joined row by row, are the column's Avro bytes."""
