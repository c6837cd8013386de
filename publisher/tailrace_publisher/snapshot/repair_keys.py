"""The keys of the rows that a repair reads, in an order in which it resumes after a kill."""

from __future__ import annotations

from typing import NamedTuple, Protocol

from tailrace_publisher.ports import Connection
from tailrace_publisher.snapshot.pending import PendingTable
from tailrace_schemas.records.signals import RowKeys


class AskedKey(NamedTuple):
    """A key whose row is read.

    Attributes:
        texts: the values of the identity's columns, as in a resume key.
        payload: the key of the row's events, without its frame; None if it is not known.
    """

    texts: tuple[str, ...]
    payload: bytes | None = None


class RepairKeys(Protocol):
    """The keys of one repair, from where it resumes to their end. A key may come again."""

    def take(self, connection: Connection, number: int) -> list[AskedKey]:
        """Return the next keys, so many at most; none at the end.

        Raises:
            RepairRefused: the keys are not all there any more.
            CheckpointUnavailable, SourceError: a system did not answer.
        """

    @property
    def place(self) -> str:
        """Where the repair resumes after the keys that were taken."""


class NamedKeys:
    """The keys that a signal names.

    Args:
        table: whose identity has the columns of the keys.
    """

    def __init__(self, table: PendingTable, wanted: RowKeys) -> None:
        order = [wanted.columns.index(name) for name in table.instance.identity]
        self._keys = [AskedKey(tuple(key[place] for place in order)) for key in wanted.keys]
        self._taken = int(table.progress.resume_key or 0)

    def take(self, connection: Connection, number: int) -> list[AskedKey]:  # noqa: ARG002 - at hand
        """Return the next keys."""
        begin, self._taken = self._taken, self._taken + number
        return self._keys[begin : self._taken]

    @property
    def place(self) -> str:
        """The number of keys that were taken."""
        return str(self._taken)
