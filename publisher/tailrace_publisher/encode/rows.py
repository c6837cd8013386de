"""What the encoder hands to delivery."""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass, field


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
        )
