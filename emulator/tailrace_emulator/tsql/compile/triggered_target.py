"""A table with triggers: what a statement writes to it is remembered for them.

The rows that inserted and deleted show are those before and after the whole statement. So they are
read here and kept until its end; the trigger runner takes them then. An INSTEAD OF trigger gets
them without anything being written.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from tailrace_emulator.storage.values import GENERATED
from tailrace_emulator.tsql.compile.targets import StoredTarget
from tailrace_emulator.values.types import StorageValue

if TYPE_CHECKING:
    from tailrace_emulator.catalog.context import SessionContext
    from tailrace_emulator.storage.catalog_state import Module
    from tailrace_emulator.storage.engine import Database
    from tailrace_emulator.storage.model import Table
    from tailrace_emulator.tsql.compile.compiler import Compilation
    from tailrace_emulator.tsql.compile.workspace import Workspace

Row = tuple[StorageValue, ...]


@dataclass(slots=True)
class Written:
    """What a statement did to the table, for one event."""

    inserted: list[Row] = field(default_factory=list)
    deleted: list[Row] = field(default_factory=list)


@dataclass(slots=True)
class TriggeredTarget:
    """A stored table that has enabled triggers."""

    stored: StoredTarget
    triggers: tuple[Module, ...]
    workspace: Workspace
    written: dict[str, Written] = field(default_factory=dict)
    """By event; only those that a trigger fires on."""
    _rows: dict[int, Row] = field(default_factory=dict)
    """Rows that an INSTEAD OF trigger got, by the ids that they were given here."""

    @property
    def table(self) -> Table:
        """See :class:`tailrace_emulator.tsql.compile.targets.Target`."""
        return self.stored.table

    @property
    def database(self) -> Database:
        """The table's database."""
        return self.stored.database

    @property
    def shown(self) -> str:
        """See :class:`tailrace_emulator.tsql.compile.targets.Target`."""
        return self.stored.shown

    @property
    def database_name(self) -> str:
        """See :class:`tailrace_emulator.tsql.compile.targets.Target`."""
        return self.stored.database_name

    def firing(self, event: str) -> list[Module]:
        """The triggers to run for an event: one does not run for what it does itself."""
        running = self.workspace.triggers[-1:]
        recursive = bool(self.database.options.get("is_recursive_triggers_on"))
        return [
            trigger
            for trigger in self.triggers
            if trigger.fires_on(event)
            and (
                (recursive and not trigger.is_instead_of)
                or all(trigger.object_id != other.object_id for other in running)
            )
        ]

    def is_replaced(self, event: str) -> bool:
        """See :class:`tailrace_emulator.tsql.compile.targets.Target`."""
        return any(trigger.is_instead_of for trigger in self.firing(event))

    def begin(self) -> None:
        """A statement begins, perhaps again."""
        self.written = {}
        self._rows = {}

    def take(self) -> dict[str, Written]:
        """What the statement did; the triggers' own statements may use this target meanwhile."""
        taken, self.written, self._rows = self.written, {}, {}
        return taken

    def source(self, compilation: Compilation) -> str:
        """See :class:`tailrace_emulator.tsql.compile.targets.Target`."""
        return self.stored.source(compilation)

    def insert(self, context: SessionContext, rows: Iterable[Sequence[Any]]) -> list[int]:
        """See :class:`tailrace_emulator.tsql.compile.targets.Target`."""
        firing = self.firing("INSERT")
        if any(trigger.is_instead_of for trigger in firing):
            images = [self._not_generated(row) for row in rows]
            self._note("INSERT", images, [])
            first = -len(self._rows) - len(images)
            rids = list(range(first, first + len(images)))
            self._rows.update(zip(rids, images, strict=True))
            return rids
        rids = self.stored.insert(context, rows)
        if firing:
            self._note("INSERT", self._read(context, rids), [])
        return rids

    def numbered(self, context: SessionContext, row: tuple[Any, ...]) -> tuple[Any, ...]:
        """See :class:`tailrace_emulator.tsql.compile.targets.Target`."""
        return self.stored.numbered(context, row)

    def update(self, context: SessionContext, changes: Iterable[tuple[int, Any]]) -> int:
        """See :class:`tailrace_emulator.tsql.compile.targets.Target`."""
        firing = self.firing("UPDATE")
        if not firing:
            return self.stored.update(context, changes)
        kept = list(changes)
        rids = [rid for rid, _ in kept]
        before = self._read(context, rids)
        if any(trigger.is_instead_of for trigger in firing):
            images = [self._not_generated(row) for _, row in kept]
            self._rows.update(zip(rids, images, strict=True))
            self._note("UPDATE", images, before)
            return len(kept)
        count = self.stored.update(context, kept)
        self._note("UPDATE", self._read(context, rids), before)
        return count

    def delete(self, context: SessionContext, rids: Iterable[int]) -> int:
        """See :class:`tailrace_emulator.tsql.compile.targets.Target`."""
        firing = self.firing("DELETE")
        if not firing:
            return self.stored.delete(context, rids)
        kept = list(rids)
        self._note("DELETE", [], self._read(context, kept))
        if any(trigger.is_instead_of for trigger in firing):
            return len(kept)
        return self.stored.delete(context, kept)

    def truncate(self, context: SessionContext) -> None:
        """See :class:`tailrace_emulator.tsql.compile.targets.Target`: it fires nothing."""
        self.stored.truncate(context)

    def read(self, context: SessionContext, rids: Sequence[int]) -> dict[int, Row]:
        """See :class:`tailrace_emulator.tsql.compile.targets.Target`."""
        given = {rid: self._rows[rid] for rid in rids if rid in self._rows}
        rest = [rid for rid in rids if rid not in given]
        return given | self.stored.read(context, rest) if rest else given

    def _read(self, context: SessionContext, rids: Sequence[int]) -> list[Row]:
        """Rows in the order of their ids."""
        found = self.stored.read(context, rids)
        return [found[rid] for rid in rids]

    def _note(self, event: str, inserted: list[Row], deleted: list[Row]) -> None:
        written = self.written.setdefault(event, Written())
        written.inserted += inserted
        written.deleted += deleted

    def _not_generated(self, row: Sequence[Any]) -> Row:
        """A row that is never stored: its identity value is 0, its rowversion NULL."""
        return tuple(
            (0 if column.identity is not None else None) if value is GENERATED else value
            for value, column in zip(row, self.table.columns, strict=True)
        )


__all__ = ["TriggeredTarget", "Written"]
