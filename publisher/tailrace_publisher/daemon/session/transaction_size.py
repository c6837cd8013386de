"""How many rows and bytes a Kafka transaction may have, and which event fills it."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from itertools import accumulate

from tailrace_publisher.encode.encoded_events import EncodedRows
from tailrace_schemas.position.lsn import LSN_BYTES


class TransactionSize:
    """The bounds of a Kafka transaction, and the size of the source transaction that is open."""

    def __init__(self, rows_max: int, bytes_max: int) -> None:
        self._rows_max = rows_max
        self._bytes_max = bytes_max
        self._open_rows = 0
        self._open_bytes = 0

    def closed(self) -> None:
        """Note that no source transaction is open."""
        self._open_rows = self._open_bytes = 0

    def is_full(self, rows: int, size: int) -> bool:
        """Return whether so many rows, or bytes, fill a Kafka transaction."""
        return rows >= self._rows_max or size >= self._bytes_max

    def is_filled_by(self, lsn: bytes, parts: Sequence[EncodedRows]) -> bool:
        """Add events of the open source transaction; return whether it fills one alone.

        Args:
            lsn: commit LSN of the source transaction; earlier events are not of it.
        """
        starts = [bisect_left(part.positions, lsn) for part in parts]
        if any(starts):
            self.closed()
        for part, start in zip(parts, starts, strict=True):
            self._open_rows += len(part) - start
            self._open_bytes += sum(map(len, part.values[start:]))
        return self.is_full(self._open_rows, self._open_bytes)

    def commit_lsn_that_fills(self, parts: list[EncodedRows], rows: int, size: int) -> bytes | None:
        """Return the commit LSN of the event that fills a Kafka transaction; None if all fit.

        Args:
            rows: number of events that the transaction has.
            size: bytes of their values.
        """
        room, space = max(self._rows_max - rows, 1), max(self._bytes_max - size, 1)
        if sum(map(len, parts)) <= room and sum(part.size for part in parts) <= space:
            return None
        positions: Sequence[bytes]
        if len(parts) == 1:
            positions, sizes = parts[0].positions, list(map(len, parts[0].values))
        else:
            events = sorted(
                event
                for part in parts
                for event in zip(part.positions, map(len, part.values), strict=True)
            )
            positions, sizes = [event[0] for event in events], [event[1] for event in events]
        last = min(room - 1, bisect_right(list(accumulate(sizes)), space))
        return positions[last][:LSN_BYTES]
