"""What the encoder passes to the delivery."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Protocol

from tailrace_schemas.records.dead_letters import DeadLetter
from tailrace_schemas.topics.topic_names import TableName

Headers = Sequence[tuple[str, bytes]]
"""Names and values of a record's headers."""


class Serializer(Protocol):
    """Rewrites framed Avro in another serialization, for one schema version.

    Attributes:
        headers: of records with a value; None if they have none.
    """

    headers: Headers | None

    def keys(self, framed: Sequence[bytes | None]) -> list[bytes | None]:
        """Return the serialized keys of events."""

    def values(self, framed: Sequence[bytes]) -> list[bytes]:
        """Return the serialized values; an empty value, which is a dead letter's, stays empty."""


@dataclass(slots=True)
class EncodedRows:
    """Events of one capture instance in position order, ready to be produced.

    Attributes:
        schema_id: registry id of the values' schema, for the ledger.
        positions: 25 bytes each, ascending. See ``tailrace_schemas.position.change_position``.
        keys: framed Avro keys; None for a keyless table.
        deletes: ascending indexes of events that need a tombstone after them.
        table: the source table; None if there are no events.
        skipped: how many events of the rows the options leave out.
        lacks_operations: whether the options leave out whole operations. Then counts per operation
            do not describe the table.
        serializer: rewrites keys and values at sending. None sends them unchanged.
        letters: by index, the dead letters sent instead of an event. The event's value is empty.
    """

    topic: str
    schema_id: int
    positions: list[bytes] = field(default_factory=list)
    keys: list[bytes | None] = field(default_factory=list)
    values: list[bytes] = field(default_factory=list)
    deletes: list[int] = field(default_factory=list)
    table: TableName | None = None
    skipped: int = 0
    lacks_operations: bool = False
    serializer: Serializer | None = None
    letters: dict[int, DeadLetter] = field(default_factory=dict)

    def __len__(self) -> int:
        """Number of events and dead letters; tombstones are not counted."""
        return len(self.values)

    @property
    def size(self) -> int:
        """Bytes of the values."""
        return sum(map(len, self.values))

    def slice(self, start: int, stop: int) -> EncodedRows:
        """Return the events with indexes in [start, stop), to merge and to cut transactions."""
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
            letters={i - start: self.letters[i] for i in self.letters if start <= i < stop},
        )

    def written(self) -> tuple[list[bytes | None], list[bytes]]:
        """Return keys and values with the bytes that are sent."""
        if self.serializer is None:
            return self.keys, self.values
        return self.serializer.keys(self.keys), self.serializer.values(self.values)

    def with_letters(self, letters: dict[int, DeadLetter]) -> EncodedRows:
        """Return the same rows with more events turned into dead letters."""
        values = list(self.values)
        for index in letters:
            values[index] = b""
        return replace(
            self,
            values=values,
            deletes=[index for index in self.deletes if index not in letters],
            letters=dict(sorted({**self.letters, **letters}.items())),
        )

    def events(self) -> EncodedRows:
        """Return only the events that go to their topic."""
        if not self.letters:
            return self
        kept = [index for index in range(len(self.values)) if index not in self.letters]
        places = {index: place for place, index in enumerate(kept)}
        return replace(
            self,
            positions=[self.positions[index] for index in kept],
            keys=[self.keys[index] for index in kept],
            values=[self.values[index] for index in kept],
            deletes=[places[index] for index in self.deletes if index in places],
            letters={},
        )


def joined_rows(parts: list[EncodedRows]) -> EncodedRows:
    """Join consecutive events of one version.

    Args:
        parts: at least one part.
    """
    whole = replace(parts[0], positions=[], keys=[], values=[], deletes=[], skipped=0, letters={})
    for part in parts:
        whole.serializer = whole.serializer or part.serializer
        begin = len(whole.values)
        whole.positions += part.positions
        whole.keys += part.keys
        whole.values += part.values
        whole.deletes += [begin + index for index in part.deletes]
        whole.skipped += part.skipped
        whole.letters |= {begin + index: letter for index, letter in part.letters.items()}
    return whole
