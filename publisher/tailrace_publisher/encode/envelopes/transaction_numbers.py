"""Numbers the events of source transactions: the ``transaction`` block of the envelope.

The number of an event in its transaction is known only after the merge of all tables, when the
event is encoded already. The block is the envelope's last field, and one byte if it is absent. So
the block replaces that byte, whichever way the event was encoded.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import replace

from tailrace_publisher.encode.columns.varint import PRESENT, encode_long, encode_string
from tailrace_publisher.encode.encoded_events import EncodedRows
from tailrace_schemas.position.lsn import LSN_BYTES, Lsn
from tailrace_schemas.records.transactions import Boundary


class TransactionNumbers:
    """Counts the events of the current source transaction.

    Args:
        commit: commit LSN of the transaction that contains the position.
        counts: its published events per table; None if the position is in no transaction.
    """

    def __init__(self, commit: Lsn, counts: Mapping[str, int] | None = None) -> None:
        self._commit = None if counts is None else commit.to_bytes()
        self._counts: Counter[str] = Counter(counts or {})
        self._total = sum(self._counts.values())
        self._ms: int | None = None

    @property
    def open_counts(self) -> dict[str, int] | None:
        """Events per table of the open transaction; None if none is open."""
        return None if self._commit is None else dict(self._counts)

    def number(
        self, parts: Iterable[EncodedRows], commit_ms: Mapping[bytes, int], *, ends: bool
    ) -> tuple[list[EncodedRows], list[Boundary]]:
        """Number the events of a block, in the order of their positions.

        Args:
            parts: the events, by capture instance.
            commit_ms: commit times by the bytes of the commit LSN.
            ends: whether no later event is of the last one's transaction.

        Returns:
            The events with their blocks, and the boundaries that they pass.
        """
        numbered = [replace(part, values=list(part.values)) for part in parts]
        tables = [str(part.table) for part in numbered]
        events = sorted(
            (position, place, index)
            for place, part in enumerate(numbered)
            for index, position in enumerate(part.positions)
            if index not in part.letters
        )
        boundaries: list[Boundary] = []
        block = b""
        for position, place, index in events:
            commit = position[:LSN_BYTES]
            if commit != self._commit:
                boundaries += self.end()
                boundaries.append(self._begin(commit, commit_ms))
                block = b""
            elif self._ms is None:  # it was begun before a restart
                self._ms = commit_ms.get(commit)
            if not block:
                block = PRESENT + encode_string(str(Lsn.from_bytes(commit)))
            part = numbered[place]
            self._total += 1
            self._counts[tables[place]] += 1
            numbers = encode_long(self._total) + encode_long(self._counts[tables[place]])
            part.values[index] = part.values[index][:-1] + block + numbers
        if ends:
            boundaries += self.end()
        return numbered, boundaries

    def end(self) -> list[Boundary]:
        """Return the end of the open transaction; nothing if none is open."""
        if self._commit is None:
            return []
        ended = Boundary(Lsn.from_bytes(self._commit), self._ms, dict(self._counts))
        self._commit = self._ms = None
        self._counts.clear()
        self._total = 0
        return [ended]

    def _begin(self, commit: bytes, commit_ms: Mapping[bytes, int]) -> Boundary:
        self._commit, self._ms = commit, commit_ms.get(commit)
        return Boundary(Lsn.from_bytes(commit), self._ms)
