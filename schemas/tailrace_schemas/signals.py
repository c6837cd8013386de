"""Signals: what operators ask of a running publisher.

Topic ``<prefix>.signals``, one partition, a JSON object per record, so that any Kafka client can
write one: ``{"type": "snapshot", "tables": ["dbo.orders"]}`` asks for a new snapshot of tables. The
checkpoint holds the offset behind the last signal that was taken, so each is taken exactly once.

``{"type": "accept_checkpoint_loss", "server": ..., "database": ..., "progress_offset": ...,
"closed_lsn": ...}`` accepts that the checkpoint of a database is lost (``tailrace
accept-checkpoint-loss`` writes it): it is looked for by a start without a checkpoint, and counts as
long as the progress record that it names is the newest one.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
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


@dataclass(frozen=True, slots=True)
class AcceptedLoss:
    """Accepts that the checkpoint of a database is lost, and asks for new snapshots of all tables.

    Attributes:
        server: logical name of the source server.
        database: the source database.
        progress_offset: offset of the newest progress record of that database.
        closed_lsn: its closed LSN.
    """

    server: str
    database: str
    progress_offset: int
    closed_lsn: str

    def to_bytes(self) -> bytes:
        """The record's value."""
        return json.dumps({"type": "accept_checkpoint_loss", **asdict(self)}).encode()


def read_signal(value: bytes | None) -> SnapshotSignal | AcceptedLoss:
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
            return SnapshotSignal(tuple(tables))
        case {
            "type": "accept_checkpoint_loss",
            "server": str(server),
            "database": str(database),
            "progress_offset": int(offset),
            "closed_lsn": str(closed_lsn),
        }:
            return AcceptedLoss(server, database, offset, closed_lsn)
    raise ValueError(f"not a signal: {_EXPECTED}")
