"""What stands on the engine: it may refuse what is to happen, and learns what does.

The engine knows nothing of what uses it, such as a reader of the transaction log with tables of its
own. It calls an :class:`Extension`, one object that is handed to it at its creation. Without one,
this class itself answers: nothing is refused, nothing is done. What an extension adds on a floor
above storage (system procedures, views, functions) is a *part* of it, found by its class.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

if TYPE_CHECKING:
    import apsw

    from tailrace_emulator.storage.database import Database
    from tailrace_emulator.storage.model import Column, Table

Part = TypeVar("Part")
Rows = Iterable[Sequence[Any]]
"""Full rows, in column order."""
Changes = Iterable[tuple[int, Any]]
"""(row id, new row) pairs."""
CurrentRows = Callable[[list[int]], Mapping[int, Sequence[Any]]]
"""Reads rows, by row id, as they are."""


class Extension:
    """Called by the engine; one per engine, used by every thread.

    Whatever is refused is refused by raising SqlError.
    """

    schemas: ClassVar[frozenset[str]] = frozenset()
    """Schemas that it makes in databases, casefolded; each belongs to the user of its name."""

    def __init__(self, parts: Mapping[type, object] | None = None) -> None:
        """Begin.

        Args:
            parts: what it adds on floors above storage, by the class that those ask for.
        """
        self._parts: dict[type, Any] = dict(parts or {})

    def part(self, kind: type[Part]) -> Part:
        """What it adds to something, or keeps for it; ``kind()`` where it was given nothing."""
        found: Part | None = self._parts.get(kind)
        if found is None:
            found = self._parts.setdefault(kind, kind())
        return found

    # Databases ----------------------------------------------------------------------------------

    def opened(self, connection: apsw.Connection, database: Database) -> None:
        """A database was found at the start of the server; inside a write transaction."""

    def renaming_database(self, connection: apsw.Connection, database: Database) -> None:
        """A database gets another name; inside the write transaction that gives it."""

    def dropping_database(self, connection: apsw.Connection, database: Database) -> None:
        """A database goes; inside the write transaction that drops it."""

    # Tables -------------------------------------------------------------------------------------

    def altering(self, table: Table, column: Column | None = None) -> None:
        """A table gets another shape or name.

        Args:
            column: the one whose type changes; None for any other change.
        """

    def renaming_column(
        self, connection: apsw.Connection, database: Database, table: Table, column_id: int
    ) -> None:
        """A column gets another name."""

    def dropping_table(self, database: Database, table: Table) -> None:
        """A table goes."""

    def dropping_index(
        self, connection: apsw.Connection, database: Database, table: Table, name: str
    ) -> None:
        """An index goes, or the constraint that it belongs to."""

    def switching(
        self, connection: apsw.Connection, database: Database, table: Table, *, is_source: bool
    ) -> None:
        """Rows of a partitioned table go to or come from another by ALTER TABLE .. SWITCH."""

    # Rows ---------------------------------------------------------------------------------------

    def inserting(self, _database: Database, _table: Table, rows: Rows) -> Rows:
        """The rows of an INSERT, looked at on their way."""
        return rows

    def updating(
        self,
        _database: Database,
        _table: Table,
        changes: Changes,
        _current: CurrentRows,
        _but: Collection[int] = (),
    ) -> Changes:
        """The changes of an UPDATE, looked at on their way.

        Args:
            changes: what becomes of which row.
            _current: reads rows as they are before.
            _but: positions of columns that are not to be looked at.
        """
        return changes

    def extending(self, database: Database, table: Table, column: Column, data: object) -> None:
        """Something is added to a large value, by WRITETEXT, UPDATETEXT or .WRITE()."""
