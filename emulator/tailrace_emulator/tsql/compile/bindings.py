"""WITH SCHEMABINDING: what a view or function refers to, noted while it is compiled.

https://learn.microsoft.com/sql/t-sql/statements/create-view-transact-sql, "SCHEMABINDING"
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from tailrace_emulator import messages

if TYPE_CHECKING:
    from tailrace_emulator.storage.catalog_state import Module
    from tailrace_emulator.storage.database import Database
    from tailrace_emulator.storage.model import Table
    from tailrace_emulator.tsql.compile.names import ObjectName
    from tailrace_emulator.tsql.compile.scope import SourceColumn
    from tailrace_emulator.tsql.syntax.nodes import Name

Reference = tuple[int, int]
"""An object's id and a column's; 0 for the object itself."""


class Binding:
    """The references of one schema-bound view or function."""

    def __init__(self, database: Database, kind: str, own: Name) -> None:
        """Begin.

        Args:
            database: where it is; what it refers to must be there too.
            kind: view or function, for messages.
            own: its name, as written.
        """
        self.database = database
        self.kind = kind
        self.own = own
        self.found: set[Reference] = set()

    def note(self, name: Name, where: ObjectName) -> None:
        """The text names a table, view or function.

        Raises:
            SqlError: 4512 not in two parts, or itself; 2720 a system view, 2788 a synonym, 4513 a
                view or function that is not schema-bound.
        """
        shown = messages.dotted(name)
        own = tuple(part.casefold() for part in self.own[-1:])
        if len(name) != 2 or not name[0] or (where.name.casefold(),) == own:
            raise messages.error(4512, self.kind, messages.dotted(self.own), shown)
        database = self.database
        if database.synonym(*name) is not None:
            raise messages.error(2788)
        table = database.table(*name)
        module = database.module(*name)
        if table is not None:
            self.found.add((table.object_id, 0))
        elif module is not None:
            self._note_module(module, shown)
        elif name[0].casefold() in {"sys", "information_schema"}:
            raise messages.error(2720, self.kind, messages.dotted(self.own), shown)

    def _note_module(self, module: Module, shown: str) -> None:
        if module.object_id not in self.database.state.bindings:
            raise messages.error(4513, self.kind, messages.dotted(self.own), shown)
        self.found.add((module.object_id, 0))

    def watch(self, table: Table, columns: Sequence[SourceColumn]) -> None:
        """Have the columns of a table noted when they are used."""
        ids = {column.name: column.column_id for column in table.columns}
        for column in columns:
            if column.name in ids:
                reference = (table.object_id, ids[column.name])
                column.check = self._noting(reference, column.check)

    def _noting(self, reference: Reference, check: Callable[[], None] | None) -> Callable[[], None]:
        def noted() -> None:
            self.found.add(reference)
            if check is not None:
                check()

        return noted
