"""What the encoder hands to delivery."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Protocol

Headers = Sequence[tuple[str, bytes]]
"""Names and values of a record's headers."""


class Serializer(Protocol):
    """Writes what is encoded as framed Avro in another way; for one schema version.

    Attributes:
        headers: of records with a value; None where they have none.
    """

    headers: Headers | None

    def keys(self, framed: Sequence[bytes | None]) -> list[bytes | None]:
        """The keys of events."""

    def values(self, framed: Sequence[bytes]) -> list[bytes]:
        """The values of events."""


@dataclass(slots=True)
class EncodedRows:
    """Events of one capture instance in position order, ready to be produced.

    Attributes:
        topic: where they go.
        schema_id: registry id of the values' schema, for the ledger.
        positions: 25 bytes each, see ``tailrace_schemas.position``; ascending.
        keys: framed Avro keys, None for a keyless table.
        values: framed Avro envelopes.
        deletes: ascending indexes of the events that want a tombstone behind them.
        table: the source table, database.schema.table.
        skipped: how many events of the rows the options leave out.
        lacks_operations: whether the options leave out whole operations, so that what is counted by
            operation says nothing of the table.
        serializer: writes keys and values in another way than Avro, when they are sent; None: they
            are sent as they are.
    """

    topic: str
    schema_id: int
    positions: list[bytes] = field(default_factory=list)
    keys: list[bytes | None] = field(default_factory=list)
    values: list[bytes] = field(default_factory=list)
    deletes: list[int] = field(default_factory=list)
    table: str = ""
    skipped: int = 0
    lacks_operations: bool = False
    serializer: Serializer | None = None

    def __len__(self) -> int:
        """Number of events; tombstones are not counted."""
        return len(self.values)

    @property
    def size(self) -> int:
        """Bytes of the values."""
        return sum(map(len, self.values))

    def slice(self, start: int, stop: int) -> EncodedRows:
        """The events with indexes in [start, stop), for merging and for cutting transactions."""
        low = bisect_left(self.deletes, start)
        high = bisect_left(self.deletes, stop)
        return EncodedRows(
            self.topic,
            self.schema_id,
            self.positions[start:stop],
            self.keys[start:stop],
            self.values[start:stop],
            [index - start for index in self.deletes[low:high]],
            self.table,
            lacks_operations=self.lacks_operations,
            serializer=self.serializer,
        )
