"""Table variables and #temp tables: tables of one session, in its connection's TEMP database.

They are not logged and no other session sees them. A #temp table takes part in transactions: its
first change in one, and after each savepoint, keeps a copy, which a rollback puts back. A
table variable does not, as in SQL Server.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

import apsw

from tailrace_emulator import messages
from tailrace_emulator.messages.errors import SqlError
from tailrace_emulator.storage.model import Column, Identity, Index, Table
from tailrace_emulator.storage.sqlite_schema import (
    column_definition,
    create_table_text,
    nulls_index,
    where_text,
)
from tailrace_emulator.storage.values import value_text
from tailrace_emulator.tsql.certain import known
from tailrace_emulator.values.types import StorageValue

TEMPDB_ID: Final = 2


@dataclass(frozen=True, slots=True)
class _Copy:
    """The rows as they were before the first change under a number of savepoints."""

    level: int
    name: str
    identity_last: int | None


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
        self.is_new = False
        """Whether the open transaction made it, so that its rollback removes it."""
        self.ignored_duplicates = False
        """Whether the last INSERT left out rows for IGNORE_DUP_KEY."""
        self.user_type_id = 0
        """The table type that it was declared with; 0 for none."""
        self.sqlite_name = f"local_{table.object_id}"
        self.source = f'temp."{self.sqlite_name}"'
        self._copies: list[_Copy] = []
        self._prepare()
        connection.execute(create_table_text(table, self.sqlite_name, temporary=True))
        for index in table.indexes:
            self._create_index(index)

    def _prepare(self) -> None:
        """The statements that write its rows."""
        columns = ", ".join(c.sqlite_name for c in self.table.columns)
        marks = ", ".join("?" * len(self.table.columns))
        settings = ", ".join(f"{c.sqlite_name} = ?" for c in self.table.columns)
        self._insert = f"INSERT INTO {self.source}({columns}) VALUES ({marks})"
        self._insert_at = f"INSERT INTO {self.source}(rid, {columns}) VALUES (?, {marks})"
        self._update = f"UPDATE {self.source} SET {settings} WHERE rid = ?"
        self._delete = f"DELETE FROM {self.source} WHERE rid = ?"

    def _create_index(self, index: Index) -> None:
        """An index in the TEMP database."""
        unique = "UNIQUE " if index.unique else ""
        terms = ", ".join(f"c{column_id}" for column_id in index.column_ids)
        self.connection.execute(
            f'CREATE {unique}INDEX temp."{self.sqlite_name}_{index.index_id}"'
            f' ON "{self.sqlite_name}"({terms}){where_text(index)}'
        )
        nulls = nulls_index(self.table, index)
        if nulls is not None:
            self.connection.execute(
                f'CREATE UNIQUE INDEX temp."{self.sqlite_name}_{index.index_id}_nulls"'
                f' ON "{self.sqlite_name}"{nulls}'
            )

    def _drop_index(self, index: Index) -> None:
        name = f"{self.sqlite_name}_{index.index_id}"
        for each in (name, f"{name}_nulls"):
            self.connection.execute(f'DROP INDEX IF EXISTS temp."{each}"')

    def drop(self) -> None:
        """Remove it; SQLite refuses that while a statement is being read (a function's caller)."""
        self.forget_copies()
        self._graveyard.append(self.source)
        while self._graveyard:
            try:
                self.connection.execute(f"DROP TABLE IF EXISTS {self._graveyard[-1]}")
            except apsw.LockedError:
                return
            self._graveyard.pop()

    # Transactions -------------------------------------------------------------------------------

    def keep_copy(self, level: int) -> None:
        """Before a change in a transaction: the first one after each savepoint keeps the rows.

        Args:
            level: how many savepoints the transaction has.
        """
        if self.transactional and (not self._copies or self._copies[-1].level < level):
            name = f"{self.sqlite_name}_before{level}"
            self.connection.execute(f'CREATE TEMP TABLE "{name}" AS SELECT * FROM {self.source}')
            self._copies.append(_Copy(level, name, self.identity_last))

    def forget_copies(self, level: int = 0) -> None:
        """Drops the copies of a level and those above: after COMMIT all of them."""
        while self._copies and self._copies[-1].level >= level:
            copy = self._copies.pop()
            self.connection.execute(f'DROP TABLE IF EXISTS temp."{copy.name}"')

    def restore(self, level: int = 0) -> None:
        """After ROLLBACK, or one to the savepoint of that level: the rows as they were then."""
        first = next((copy for copy in self._copies if copy.level >= level), None)
        if first is None:
            return
        columns = ", ".join(["rid", *(c.sqlite_name for c in self.table.columns)])
        self.connection.execute(f"DELETE FROM {self.source}")
        self.connection.execute(
            f'INSERT INTO {self.source}({columns}) SELECT {columns} FROM temp."{first.name}"'
        )
        self.forget_copies(level)

    # Definition ---------------------------------------------------------------------------------

    def add_index(self, index: Index) -> None:
        """An index or key.

        Raises:
            SqlError: 1913 its name is taken, 1505 a duplicate key.
        """
        if any(known.name.casefold() == index.name.casefold() for known in self.table.indexes):
            raise messages.error(1913, index.name, "table", self.shown)
        number = max((known.index_id for known in self.table.indexes), default=0) + 1
        made = replace(index, index_id=number)
        try:
            self._create_index(made)
        except apsw.ConstraintError as error:
            self._drop_index(made)
            raise self._equal_keys(made) from error
        self.table = replace(self.table, indexes=(*self.table.indexes, made))

    def _equal_keys(self, index: Index) -> SqlError:
        """1505: a unique index that two rows do not allow."""
        columns = [self.table.column_by_id(column_id) for column_id in index.column_ids]
        terms = ", ".join(f"c{column_id}" for column_id in index.column_ids)
        row = next(
            self.connection.execute(
                f"SELECT {terms} FROM {self.source}{where_text(index)} GROUP BY {terms}"
                " HAVING count(*) > 1 LIMIT 1"
            )
        )
        key = ", ".join(value_text(v, c.type) for v, c in zip(row, columns, strict=True) if c)
        return messages.error(1505, f"dbo.{self.shown}", index.name, f"({key})")

    def drop_index(self, name: str) -> bool:
        """Removes an index or key; False when there is none of that name."""
        folded = name.casefold()
        found = next((i for i in self.table.indexes if i.name.casefold() == folded), None)
        if found is None:
            return False
        name = f"{self.sqlite_name}_{found.index_id}"
        self.connection.execute(
            f'DROP INDEX temp."{name}"; DROP INDEX IF EXISTS temp."{name}_nulls"'
        )
        self.table = replace(
            self.table, indexes=tuple(i for i in self.table.indexes if i is not found)
        )
        return True

    def add_column(self, column: Column, value: StorageValue) -> None:
        """A new last column; the rows that are there get ``value``.

        Raises:
            SqlError: 2705 its name is taken.
        """
        if self.table.column(column.name) is not None:
            raise messages.error(2705, column.name, self.shown)
        known = max(c.column_id for c in self.table.columns)
        made = replace(column, column_id=max(known, self.table.next_column_id) + 1)
        self.connection.execute(f"ALTER TABLE {self.source} ADD COLUMN {column_definition(made)}")
        if value is not None:
            self.connection.execute(f"UPDATE {self.source} SET {made.sqlite_name} = ?", (value,))
        columns = (*self.table.columns, made)
        self.table = replace(self.table, columns=columns, next_column_id=made.column_id)
        self._prepare()

    def drop_column(self, name: str) -> bool:
        """Removes a column; False when there is none of that name.

        Raises:
            SqlError: 5074 if an index uses it, 4923 for the only column that is not computed.
        """
        column = self.table.column(name)
        if column is None:
            return False
        user = next((i for i in self.table.indexes if column.column_id in i.used_column_ids), None)
        if user is not None:
            kind = "object" if user.primary_key or user.unique_constraint else "index"
            raise messages.error(5074, kind, user.name, "column", column.name)
        if all(c.computed is not None for c in self.table.columns if c is not column):
            raise messages.error(4923, column.name, self.shown)
        self.connection.execute(f"ALTER TABLE {self.source} DROP COLUMN {column.sqlite_name}")
        self.table = replace(
            self.table,
            columns=tuple(c for c in self.table.columns if c is not column),
            next_column_id=max(c.column_id for c in self.table.columns),
        )
        self._prepare()
        return True

    # Rows ---------------------------------------------------------------------------------------

    def insert(self, rows: Iterable[Sequence[Any]], *, of_merge: bool = False) -> list[int]:
        """Inserts full rows; GENERATED identity values are filled in, ignored duplicates left out.

        Args:
            of_merge: whether MERGE inserts them, which ignores no duplicate.

        Raises:
            SqlError: 515 for NULL, 2627 for an equal key.
        """
        identity = next((n for n, c in enumerate(self.table.columns) if c.identity), None)
        self.ignored_duplicates = False
        rids = []
        for row in list(rows):  # all of them first: they may come from this table
            values = list(row)
            if identity is not None:
                values[identity] = self._identity(self.table.columns[identity], values[identity])
            self._refuse_null(values, "INSERT")
            try:
                self.connection.execute(self._insert, tuple(values))
            except apsw.ConstraintError as error:
                index = self._violated(str(error))
                if of_merge or not index.ignore_dup_key:
                    raise self._duplicate(index, values) from error
                self.ignored_duplicates = True
                continue
            rids.append(self.connection.last_insert_rowid())
        return rids

    def _identity(self, column: Column, given: Any) -> int:
        """An identity value."""
        if given is not ...:
            self.identity_last = int(given)
            return int(given)
        return self.take_identity(known(column.identity, "identity of a column"))

    def take_identity(self, identity: Identity) -> int:
        """The next identity value."""
        if self.identity_last is None:
            self.identity_last = identity.seed
        else:
            self.identity_last += identity.increment
        return self.identity_last

    def update(self, changes: Iterable[tuple[int, Sequence[Any]]]) -> int:
        """Replaces rows; keys may change places within the statement.

        Raises:
            SqlError: 515, 2601 or 2627.
        """
        replaced = [(rid, list(row)) for rid, row in changes]
        for _, row in replaced:
            self._refuse_null(row, "UPDATE")
        if len(replaced) > 1 and any(index.unique for index in self.table.indexes):
            self.delete(rid for rid, _ in replaced)
            for rid, row in replaced:
                self._write(self._insert_at, [rid, *row], row)
        else:
            for rid, row in replaced:
                self._write(self._update, [*row, rid], row)
        return len(replaced)

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
                raise messages.error(515, column.name, self.shown, statement)

    def _write(self, text: str, values: Sequence[Any], row: Sequence[StorageValue]) -> None:
        """Runs one write; a duplicate key is 2627."""
        try:
            self.connection.execute(text, tuple(values))
        except apsw.ConstraintError as error:
            raise self._duplicate(self._violated(str(error)), row) from error

    def _violated(self, message: str) -> Index:
        """The index that SQLite's message names by its columns or its name."""
        told = set(re.findall(rf"{self.sqlite_name}\.(c\d+)", message))
        return next(
            i
            for i in self.table.indexes
            if i.unique
            and (
                {f"c{column_id}" for column_id in i.column_ids} == told
                or f"'{self.sqlite_name}_{i.index_id}'" in message
                or f"'{self.sqlite_name}_{i.index_id}_nulls'" in message
            )
        )

    def _duplicate(self, index: Index, row: Sequence[StorageValue]) -> SqlError:
        """2601 or 2627."""
        positions = {c.column_id: n for n, c in enumerate(self.table.columns)}
        key = ", ".join(
            value_text(row[positions[i]], self.table.columns[positions[i]].type)
            for i in index.column_ids
        )
        if not index.primary_key and not index.unique_constraint:
            return messages.error(2601, f"dbo.{self.shown}", index.name, f"({key})")
        kind = "PRIMARY KEY" if index.primary_key else "UNIQUE KEY"
        return messages.error(2627, kind, index.name, f"dbo.{self.shown}", f"({key})")
