"""From where each table is read at an LSN, computed once and cached, because each poll needs it.

The answer changes with the catalog and with the state of a table. It also changes at the LSNs where
an instance or a schema version starts to apply. Between these LSNs it is the same.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from tailrace_publisher.daemon.tables.coverage import PublishedTable, Reading, reading_of
from tailrace_publisher.source.log.probe import Probe
from tailrace_schemas.position.lsn import Lsn


@dataclass(frozen=True, slots=True)
class Readings:
    """From where each table is read in a window.

    Attributes:
        all: readings of every published table.
        probe: query for the instances that have new changes.
    """

    all: Sequence[Reading]
    probe: Probe

    @classmethod
    def of(cls, tables: Iterable[PublishedTable], lsn: Lsn) -> Readings:
        """Return the readings of a window that starts with a commit."""
        found = [r for r in (reading_of(table, lsn) for table in tables) if r is not None]
        return cls(found, Probe.of(reading.instance for reading in found))


class ReadingPlan:
    """The readings of some tables, as they are now.

    Args:
        published: tables that are published; the sequence must not change.
        captured: all captured tables. The versions of unpublished ones end windows as well.
    """

    def __init__(
        self, published: Sequence[PublishedTable], captured: Sequence[PublishedTable]
    ) -> None:
        self._tables = published
        self._covers = sorted(
            table.covers[name]
            for table in captured
            if len(table.versions) > 1
            for name in table.versions
        )
        self._schema_lsns = sorted(
            version.schema_lsn
            for table in captured
            for versions in table.versions.values()
            for version in versions
        )
        self._known: tuple[tuple[int, int], Readings] | None = None

    def at(self, lsn: Lsn) -> Readings:
        """Return the readings of a window that starts with a commit."""
        # An instance is read after the LSN from which it covers its table, a version at its own.
        place = bisect_left(self._covers, lsn), bisect_right(self._schema_lsns, lsn)
        if self._known is None or self._known[0] != place:
            self._known = place, Readings.of(self._tables, lsn)
        return self._known[1]

    def covers_from(self, first: Lsn) -> list[Lsn]:
        """Return LSNs, from one on, at which one of several instances of a table starts to hold."""
        return self._covers[bisect_left(self._covers, first) :]

    def schema_lsns(self, first: Lsn) -> list[Lsn]:
        """Return the LSNs, from one on, at which a version of a capture instance starts."""
        return self._schema_lsns[bisect_left(self._schema_lsns, first) :]
