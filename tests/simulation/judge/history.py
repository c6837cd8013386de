"""What really happened: the tables at any LSN, and the events that their changes are."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from tests.simulation.sqlserver import log as wal
from tests.simulation.sqlserver.rows import (
    UPDATE_AFTER,
    UPDATE_BEFORE,
    Change,
    Row,
    change_row_images,
)

Named = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class ExpectedEvent:
    """The event of a change row: an update is known by its after image."""

    identity: tuple[bytes, bytes, int]
    op: str
    before: Named | None
    after: Named | None


@dataclass(slots=True)
class TableHistory:
    """One table: its rows at a moment that goes forward, and all events by commit.

    Attributes:
        name: the table.
        key: names of the primary key's columns.
        names: of all columns that it ever had.
        rows: at the LSN to which it was moved.
        commits: (LSN, events) in order.
        row_changes: (LSN, row, image or None) in order.
        changed_at: LSN of the newest change up to there.
        enabled: LSN of its first capture instance: nothing before it is captured.
        switches: LSNs at which all rows were switched out.
        drops: (LSN, column) of columns that were dropped, in order.
        fills: (LSN, column, value) of columns that were added with a value in all rows, in order.
    """

    name: str
    key: tuple[str, ...]
    names: dict[int, str]
    rows: dict[int, Named] = field(default_factory=dict)
    commits: list[tuple[bytes, list[ExpectedEvent]]] = field(default_factory=list)
    row_changes: list[tuple[bytes, int, Named | None]] = field(default_factory=list)
    drops: list[tuple[bytes, str]] = field(default_factory=list)
    fills: list[tuple[bytes, str, Any]] = field(default_factory=list)
    switches: list[bytes] = field(default_factory=list)
    changed_at: bytes = b""
    enabled: bytes = b""
    _moved: int = 0

    def add(self, record: wal.Commit, changes: Iterable[Change]) -> None:
        """Take a transaction in."""
        events: list[ExpectedEvent] = []
        for change in changes:
            after = None if change.after is None else self.named(change.after)
            self.row_changes.append((record.lsn, change.row_id, after))
            events += self._events(record.lsn, change)
        if events:
            self.commits.append((record.lsn, events))

    def switch_out(self, record: wal.SwitchOut) -> None:
        """Take away all rows, without any event."""
        images = {row_id: image for _, row_id, image in self.row_changes}
        there = [row_id for row_id, image in images.items() if image is not None]
        self.row_changes += [(record.lsn, row_id, None) for row_id in there]
        self.switches += [record.lsn] * bool(there)

    def pass_switches(self, lsn: bytes) -> bool:
        """Forget the switches up to an LSN; whether there were any."""
        later = [at for at in self.switches if at > lsn]
        found, self.switches = len(later) < len(self.switches), later
        return found

    def named(self, row: Row) -> Named:
        """A row by the names of its columns."""
        return {self.names[column]: value for column, value in row.items()}

    def _events(self, lsn: bytes, change: Change) -> Iterable[ExpectedEvent]:
        before: Named | None = None
        for operation, _command, image in change_row_images(change):
            identity = (lsn, change.seqval, operation)
            if operation == UPDATE_BEFORE:
                before = self.named(image)
            elif operation == UPDATE_AFTER:
                yield ExpectedEvent(identity, "u", before, self.named(image))
            elif operation == 1:
                yield ExpectedEvent(identity, "d", self.named(image), None)
            else:
                yield ExpectedEvent(identity, "c", None, self.named(image))

    def move_to(self, lsn: bytes) -> None:
        """Take all changes up to an LSN; it only goes forward."""
        while self._moved < len(self.row_changes) and self.row_changes[self._moved][0] <= lsn:
            self.changed_at, row_id, image = self.row_changes[self._moved]
            self._drop_up_to(self.changed_at)
            self._moved += 1
            if image is None:
                del self.rows[row_id]
            else:
                self.rows[row_id] = image
        self._drop_up_to(lsn)

    def _drop_up_to(self, lsn: bytes) -> None:
        while self.fills and self.fills[0][0] <= lsn:
            _, name, value = self.fills.pop(0)
            self.rows = {row_id: {**row, name: value} for row_id, row in self.rows.items()}
        while self.drops and self.drops[0][0] <= lsn:
            _, name = self.drops.pop(0)
            for row_id, row in self.rows.items():
                self.rows[row_id] = {n: value for n, value in row.items() if n != name}

    def expected(self, after: bytes, up_to: bytes) -> Counter[tuple[bytes, bytes, int]]:
        """Identities of the events with after < LSN <= up_to."""
        return Counter(
            event.identity
            for lsn, events in self.commits
            if max(after, self.enabled) < lsn <= up_to
            for event in events
        )


def histories(records: Iterable[wal.Record]) -> dict[str, TableHistory]:
    """The history of every table on a line, by its name."""
    found: dict[int, TableHistory] = {}
    for record in records:
        if isinstance(record, wal.CreateTable):
            names = {column.column_id: column.name for column in record.columns}
            key = tuple(names[column] for column in record.key)
            found[record.object_id] = TableHistory(record.name, key, names)
        elif isinstance(record, wal.AlterTable):
            names = found[record.object_id].names
            names[record.column.column_id] = record.column.name
            if record.fill is not None:
                fill = record.lsn, record.column.name, record.fill
                found[record.object_id].fills.append(fill)
            if record.kind == "drop":
                found[record.object_id].drops.append((record.lsn, record.column.name))
        elif isinstance(record, wal.SwitchOut):
            found[record.object_id].switch_out(record)
        elif isinstance(record, wal.EnableInstance):
            history = found[record.source]
            history.enabled = history.enabled or record.lsn
        elif isinstance(record, wal.Commit):
            for object_id, history in found.items():
                history.add(record, [c for c in record.changes if c.object_id == object_id])
    return {history.name: history for history in found.values()}
