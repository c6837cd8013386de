"""From where each table is read at an LSN, worked out once and kept: a poll asks again and again.

It changes with the catalog, with the state of a table, and at the LSNs where an instance or a
version of it takes over; between them it is the same for every LSN.
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
        all: of every table that is published.
        probe: asks which of their instances have news.
    """

    all: Sequence[Reading]
    probe: Probe

    @classmethod
    def of(cls, tables: Iterable[PublishedTable], lsn: Lsn) -> Readings:
        """Those of a window that begins with a commit."""
        found = [r for r in (reading_of(table, lsn) for table in tables) if r is not None]
        return cls(found, Probe.of(reading.instance for reading in found))


class ReadingPlan:
    """The readings of some tables, as they are now.

    Args:
        published: those that are published; they may not change.
        captured: all that are captured: the versions of the others end windows all the same.
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
        """The readings of a window that begins with a commit."""
        # An instance is read behind the LSN that it covers its table from, a version from its own.
        place = bisect_left(self._covers, lsn), bisect_right(self._schema_lsns, lsn)
        if self._known is None or self._known[0] != place:
            self._known = place, Readings.of(self._tables, lsn)
        return self._known[1]

    def covers_from(self, first: Lsn) -> list[Lsn]:
        """LSNs, from an LSN on, at which one of several instances of a table begins to hold."""
        return self._covers[bisect_left(self._covers, first) :]

    def schema_lsns(self, first: Lsn) -> list[Lsn]:
        """LSNs from an LSN on, at which a version of a capture instance begins."""
        return self._schema_lsns[bisect_left(self._schema_lsns, first) :]
