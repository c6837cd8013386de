"""Options that bound cuts, batches, and what passes through the driver."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from pydantic import Field

ChangesPerBatchOption = Annotated[
    int,
    Field(
        ge=1,
        le=1_000_000_000,
        description="Changes after which a cut of the log and a batch of the tables end, at the"
        " next closed LSN; 1 to 1000000000, default 1000000. Lower: more and smaller commits."
        " Higher: a larger shuffle on the executors' disks. A batch that has started keeps the"
        " bound with which it was planned.",
    ),
]
BytesPerBatchOption = Annotated[
    int,
    Field(
        ge=1,
        le=1024**4,
        description="The same in bytes of values, by the publisher's ledger; 1 to 1099511627776 (1"
        " TiB), default 1073741824 (1 GiB). A larger transaction is applied as a whole, table by"
        " table, on the executors' disks. A larger snapshot is applied in parts.",
    ),
]
LocalChangesMaxOption = Annotated[
    int,
    Field(
        ge=0,
        le=1_000_000,
        description="Changes of a batch up to which all tables are read at once, through the"
        " driver; 0 to 1000000, default 5000. Larger batches are read table by table. Lower: small"
        " batches take longer. Higher: more memory of the driver.",
    ),
]
LocalBytesMaxOption = Annotated[
    int,
    Field(
        ge=0,
        le=1024 * 1024 * 1024,
        description="The same in bytes of values; 0 to 1073741824 (1 GiB), default 33554432 (32"
        " MiB). The driver holds several copies at once.",
    ),
]


@dataclass(frozen=True, slots=True)
class Bound:
    """The size of a cut or batch by the ledger; a single closed LSN may exceed it."""

    changes: int
    bytes: int = 1 << 62

    def allows(self, changes: int, size: int) -> bool:
        """Whether so many changes of so many bytes are within the bound."""
        return changes <= self.changes and size <= self.bytes
