"""The bound of a cut or batch."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Bound:
    """The size of a cut or batch by the ledger; a single closed LSN may exceed it."""

    changes: int
    bytes: int = 1 << 62

    def allows(self, changes: int, size: int) -> bool:
        """Whether so many changes of so many bytes are within the bound."""
        return changes <= self.changes and size <= self.bytes
