"""Signals: what operators ask of a running publisher.

Topic ``<prefix>.signals``, one partition, a JSON object per record, so that any Kafka client can
write one: ``{"type": "snapshot", "tables": ["dbo.orders"]}`` asks for a new snapshot of tables. The
checkpoint holds the offset behind the last signal that was taken, so each is taken exactly once.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Final

_EXPECTED: Final = 'expected {"type": "snapshot", "tables": ["schema.table", ...]}'


@dataclass(frozen=True, slots=True)
class SnapshotSignal:
    """Asks for a new snapshot.

    Attributes:
        tables: each ``schema.table``, or ``database.schema.table``; compared without case.
    """

    tables: tuple[str, ...]

    def to_bytes(self) -> bytes:
        """The record's value."""
        return json.dumps({"type": "snapshot", "tables": list(self.tables)}).encode()

    @classmethod
    def from_bytes(cls, value: bytes | None) -> SnapshotSignal:
        """Read a record's value.

        Raises:
            ValueError: it is not a signal; says what one looks like.
        """
        try:
            signal = json.loads(value or b"")
        except ValueError as error:
            raise ValueError(f"not JSON ({error}): {_EXPECTED}") from error
        match signal:
            case {"type": "snapshot", "tables": [_, *_] as tables} if all(
                isinstance(table, str) for table in tables
            ):
                return cls(tuple(tables))
        raise ValueError(f"not a signal: {_EXPECTED}")
