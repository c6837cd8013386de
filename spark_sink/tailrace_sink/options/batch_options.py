"""How much a cut of the log and a batch of the tables take, and what passes through the driver."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from pydantic import Field

ChangesPerBatchOption = Annotated[
    int,
    Field(
        ge=1,
        le=1_000_000_000,
        description="Changes after which a cut of the log, and a batch of the tables, ends at the"
        " next closed LSN; 1 to 1000000000, default 1000000. Lower: more and smaller commits."
        " Higher: a larger shuffle on the executors' disks. A batch that was begun is finished as"
        " it was planned, whatever the bound says by then.",
    ),
]
BytesPerBatchOption = Annotated[
    int,
    Field(
        ge=1,
        le=1024**4,
        description="The same in bytes of values, by the publisher's ledger; 1 to 1099511627776 (1"
        " TiB), default 1073741824 (1 GiB). A transaction that is larger is taken as a whole, table"
        " by table, on the executors' disks; a snapshot is applied in parts as it comes.",
    ),
]
LocalChangesMaxOption = Annotated[
    int,
    Field(
        ge=0,
        le=1_000_000,
        description="Batches up to this many changes are read once and handed to the tables through"
        " the driver; 0 to 1000000, default 5000. Larger ones are read table by table. All are"
        " compared with the publisher's ledger before anything is written: a topic that holds other"
        " changes, as after compaction, stops its table.",
    ),
]
LocalBytesMaxOption = Annotated[
    int,
    Field(
        ge=0,
        le=1024 * 1024 * 1024,
        description="The same in bytes of values: batches with more are read table by table,"
        " however few their changes are; 0 to 1073741824 (1 GiB), default 33554432 (32 MiB). The"
        " driver holds them several times at once.",
    ),
]


@dataclass(frozen=True, slots=True)
class Bound:
    """The size of one cut or batch by the ledger; one closed LSN may exceed it."""

    changes: int
    bytes: int = 1 << 62

    def allows(self, changes: int, size: int) -> bool:
        """Whether so many changes of so many bytes are within it."""
        return changes <= self.changes and size <= self.bytes
