"""Table variables and #temp tables: tables of one session, in its connection's TEMP database.

They are not logged and no other session sees them. A #temp table takes part in transactions: its
first change in one keeps a copy, which a rollback puts back. A table variable does not, as in SQL
Server.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Final

import apsw

from emulator.errors import SqlError
from emulator.storage.model import Column, Index, Table
from emulator.storage.sqlite_schema import create_table_text, where_text
from emulator.storage.values import value_text
from emulator.tsql.certain import known
from emulator.types import StorageValue

TEMPDB_ID: Final = 2


class LocalTable:
    """One local table."""

    def __init__(
        self,
        connection: apsw.Connection,
        table: Table,
        shown: str,
        graveyard: list[str],
        *,
        transactional: bool,
    ) -> None:
        """Create it, empty.

        Args:
            connection: the session's.
            table: its definition; ``object_id`` is unique within the session.
            shown: its name in messages, ``@t`` or ``#t``.
            graveyard: tables of the connection that are still to be dropped.
            transactional: whether ROLLBACK undoes its changes.
        """
        self.connection = connection
        self._graveyard = graveyard
        self.table = table
        self.shown = shown
        self.transactional = transactional
        self.identity_last: int | None = None
        self.user_type_id = 0
        """The table type that it was declared with; 0 for none."""
        self.sqlite_name = f"local_{table.object_id}"
        self.source = f'temp."{self.sqlite_name}"'
        self._copy: tuple[str, int | None] | None = None
        columns = ", ".join(c.sqlite_name for c in table.columns)
        marks = ", ".join("?" * len(table.columns))
        self._insert = f"INSERT INTO {self.source}({columns}) VALUES ({marks})"
        settings = ", ".join(f"{c.sqlite_name} = ?" for c in table.columns)
        self._update = f"UPDATE {self.source} SET {settings} WHERE rid = ?"
        self._delete = f"DELETE FROM {self.source} WHERE rid = ?"
        connection.execute(create_table_text(table, self.sqlite_name, temporary=True))
        for index in table.indexes:
            self._create_index(index)

    def _create_index(self, index: Index) -> None:
        """An index in the TEMP database."""
        unique = "UNIQUE " if index.unique else ""
        terms = ", ".join(f"c{column_id}" for column_id in index.column_ids)
        self.connection.execute(
            f'CREATE {unique}INDEX temp."{self.sqlite_name}_{index.index_id}"'
            f' ON "{self.sqlite_name}"({terms}){where_text(index)}'
        )

    def drop(self) -> None:
        """Remove it; SQLite refuses that while a statement is being read (a function's caller)."""
        self.forget_copy()
        self._graveyard.append(self.source)
        while self._graveyard:
            try:
                self.connection.execute(f"DROP TABLE IF EXISTS {self._graveyard[-1]}")
            except apsw.LockedError:
                return
            self._graveyard.pop()

    # Transactions -------------------------------------------------------------------------------

    def keep_copy(self) -> None:
        """Before the first change in a transaction."""
        if self.transactional and self._copy is None:
            name = f"{self.sqlite_name}_before"
            self.connection.execute(f'CREATE TEMP TABLE "{name}" AS SELECT * FROM {self.source}')
            self._copy = (name, self.identity_last)

    def forget_copy(self) -> None:
        """After COMMIT."""
        if self._copy is not None:
            self.connection.execute(f'DROP TABLE IF EXISTS temp."{self._copy[0]}"')
            self._copy = None

    def restore_copy(self) -> None:
        """After ROLLBACK."""
        if self._copy is not None:
            name, _ = self._copy
            columns = ", ".join(["rid", *(c.sqlite_name for c in self.table.columns)])
            self.connection.execute(f"DELETE FROM {self.source}")
            self.connection.execute(
                f'INSERT INTO {self.source}({columns}) SELECT {columns} FROM temp."{name}"'
            )
            self.forget_copy()

    # Rows ---------------------------------------------------------------------------------------

    def insert(self, rows: Iterable[Sequence[Any]]) -> list[int]:
        """Inserts full rows; GENERATED identity values are filled in.

        Raises:
            SqlError: 515 or 2627.
        """
        identity = next((n for n, c in enumerate(self.table.columns) if c.identity), None)
        rids = []
        for row in list(rows):  # all of them first: they may come from this table
            values = list(row)
            if identity is not None:
                values[identity] = self._identity(self.table.columns[identity], values[identity])
            self._refuse_null(values, "INSERT")
            self._write(self._insert, values, values)
            rids.append(self.connection.last_insert_rowid())
        return rids

    def _identity(self, column: Column, given: Any) -> int:
        """An identity value."""
        if given is not ...:
            self.identity_last = int(given)
            return int(given)
        identity = known(column.identity, "identity of a column")
        if self.identity_last is None:
            self.identity_last = identity.seed
        else:
            self.identity_last += identity.increment
        return self.identity_last

    def update(self, changes: Iterable[tuple[int, Sequence[Any]]]) -> int:
        """Replaces rows.

        Raises:
            SqlError: 515 or 2627.
        """
        count = 0
        for rid, row in list(changes):  # all of them first: they come from this table
            self._refuse_null(row, "UPDATE")
            self._write(self._update, [*row, rid], row)
            count += 1
        return count

    def delete(self, rids: Iterable[int]) -> int:
        """Deletes rows."""
        keys = [(rid,) for rid in rids]
        self.connection.executemany(self._delete, keys)
        return len(keys)

    def truncate(self) -> None:
        """Deletes every row; the identity starts again."""
        self.connection.execute(f"DELETE FROM {self.source}")
        self.identity_last = None

    def _refuse_null(self, row: Sequence[Any], statement: str) -> None:
        """515."""
        for column, value in zip(self.table.columns, row, strict=True):
            if value is None and not column.nullable and column.computed is None:
                raise SqlError(
                    515,
                    f"Cannot insert the value NULL into column '{column.name}', table"
                    f" '{self.shown}'; column does not allow nulls. {statement} fails.",
                    state=2,
                )

    def _write(self, text: str, values: Sequence[Any], row: Sequence[StorageValue]) -> None:
        """Runs one write; a duplicate key is 2627."""
        try:
            self.connection.execute(text, tuple(values))
        except apsw.ConstraintError as error:
            index = next(i for i in self.table.indexes if i.unique)
            positions = {c.column_id: n for n, c in enumerate(self.table.columns)}
            key = ", ".join(
                value_text(row[positions[i]], self.table.columns[positions[i]].type)
                for i in index.column_ids
            )
            kind = "PRIMARY KEY" if index.primary_key else "UNIQUE KEY"
            raise SqlError(
                2627,
                f"Violation of {kind} constraint '{index.name}'. Cannot insert duplicate key in"
                f" object 'dbo.{self.shown}'. The duplicate key value is ({key}).",
                severity=14,
            ) from error
