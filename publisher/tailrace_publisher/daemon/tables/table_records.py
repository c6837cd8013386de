"""The record of each table: what happened to it, and what the next commit writes of it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence, Set
from dataclasses import dataclass, field, replace
from typing import Final

from tailrace_publisher.daemon.tables.table_record import TableRecord
from tailrace_publisher.daemon.tables.table_state import (
    OUT_OF_CUT,
    PUBLISHED,
    STORED,
    UNREAD,
    TableEvent,
    TableState,
    state_after,
)
from tailrace_schemas.topics.topic_names import TableName

_NOTHING: Final = TableRecord()


@dataclass(slots=True, kw_only=True)
class TableRecords:
    """The records of all tables.

    Attributes:
        moves: how often a table entered or left the published ones.
        patched: columns of the patches that ended since the last commit.
    """

    moves: int = 0
    patched: dict[TableName, Sequence[str]] = field(default_factory=dict)
    _tables: dict[TableName, TableRecord] = field(default_factory=dict)
    _changed: set[TableName] = field(default_factory=set)
    _named: set[TableName] = field(default_factory=set)
    _restarted: set[TableName] = field(default_factory=set)
    _snapshot_numbers: Counter[TableName] = field(default_factory=Counter)
    _out_of_cut: list[TableName] | None = None
    _unread: list[TableName] | None = None
    _patches: set[TableName] = field(default_factory=set)

    def __post_init__(self) -> None:
        """Note the patches that were due at the end of the last process."""
        self._patches = {name for name, record in self._tables.items() if record.patch}

    def of(self, table: TableName) -> TableRecord:
        """Return what is known of a table."""
        return self._tables.get(table, _NOTHING)

    def records(self) -> dict[TableName, TableRecord]:
        """Return a copy of all tables' records; safe to call from another thread."""
        return self._tables.copy()

    def known(self) -> set[TableName]:
        """Return the tables that have a record."""
        return {name for name, record in self._tables.items() if record.state in STORED}

    def out_of_cut(self) -> Sequence[TableName]:
        """Return the tables that are not part of the cut, including those that are gone."""
        if self._out_of_cut is None:
            self._out_of_cut = [n for n, r in self._tables.items() if r.state in OUT_OF_CUT]
        return self._out_of_cut

    def unread(self) -> Sequence[TableName]:
        """Return the tables whose snapshots are not completely read."""
        if self._unread is None:
            self._unread = [n for n, r in self._tables.items() if r.state in UNREAD]
        return self._unread

    def patches(self) -> Set[TableName]:
        """Return the tables of which a patch is due or is being read."""
        return self._patches

    def restarted_tables(self) -> set[TableName]:
        """Return tables that the last record names and that have restarted from scratch since."""
        return self._restarted & self._named

    def snapshot_number(self, table: TableName) -> int:
        """Return how many snapshots of a table were requested since the start."""
        return self._snapshot_numbers[table]

    @property
    def has_moved(self) -> bool:
        """Whether a table differs from its checkpoint record."""
        return bool(self._changed)

    def happened(
        self, table: TableName, event: TableEvent, known: TableRecord | None = None
    ) -> TableRecord:
        """Move a table to the state after an event; the next commit writes its record.

        Args:
            known: its record from now on; default: unchanged.

        Raises:
            ForbiddenTransition: its state forbids the event.
        """
        before = self.of(table)
        after = replace(known or before, state=state_after(before.state, event))
        if event is TableEvent.GONE:
            after = TableRecord()
        elif event is TableEvent.SNAPSHOT_WANTED:
            self._restarted.add(table)
        is_new_snapshot = event in {TableEvent.SNAPSHOT_WANTED, TableEvent.PART_WANTED}
        self._snapshot_numbers[table] += is_new_snapshot
        if is_new_snapshot or after.state not in UNREAD:
            after = replace(after, snapshot_paused=False)  # a pause is of one snapshot
        if after.state is not TableState.REREADING:
            after = replace(after, snapshot_where=None, repair=None)
        self.store(table, after)
        return after

    def store(self, table: TableName, record: TableRecord) -> None:
        """Store a table's record; the next commit writes it."""
        before = self.of(table)
        if before != record:
            self._tables[table] = record
            (self._patches.discard if record.patch is None else self._patches.add)(table)
            self.moves += (before.state in PUBLISHED) != (record.state in PUBLISHED)
            if before.state is not record.state:
                self._out_of_cut = self._unread = None
            if record.state in STORED or before.state in STORED:
                self._changed.add(table)

    def note_lacking(self, table: TableName) -> None:
        """Store that a table lacks a change until its next snapshot."""
        self.store(table, replace(self.of(table), lacks_changes=True))

    def published_as(self) -> dict[int, TableName]:
        """Return the name under which each table is published, by its object id."""
        return {
            record.source_object_id: name
            for name, record in self._tables.items()
            if record.state in STORED and record.source_object_id is not None
        }

    def tables_written(self) -> None:
        """Note that the records are committed."""
        self._changed.clear()
        self._restarted.clear()
        self.patched.clear()
        self._named = set(self.out_of_cut())
