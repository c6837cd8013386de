"""The statements that read a table in the order of its identity.

Three statements in turn read what follows a composite key (a, b, c). The first reads the remaining
rows with the same a and b, the second those with the same a. The third reads the rows with a larger
a. Each is an index seek. A single condition would be a chain of ORs, which a server cannot turn
into a seek. Chunk n would then read the n - 1 chunks before it again.
"""

from __future__ import annotations

from collections.abc import Sequence, Set
from typing import Any

from tailrace_publisher.change.instance import CaptureInstance
from tailrace_publisher.errors import UnreadableKey
from tailrace_publisher.ports import Connection
from tailrace_publisher.snapshot.key_text import (
    is_narrow,
    key_text,
    needs_server_text,
    text_of_time,
    typed_parameter,
)
from tailrace_publisher.source.connection.quoting import quote_name, quote_table
from tailrace_publisher.source.pages.column_values import server_text, source_value
from tailrace_schemas.events.envelope import TableSchema


class ChunkStatements:
    """The statements of one instance and version, and the key of a row that they return.

    Attributes:
        texts: how many key texts follow the version's columns in each row.

    Args:
        selected: the version whose columns are selected; or expressions, after which the columns of
            the identity follow.
        where: the condition of the rows; None for all rows.
        option: how each statement ends, e.g. ``OPTION (MAXDOP 1)``.
        as_bytes: names of the columns whose reader takes the bytes of char and varchar.
    """

    def __init__(
        self,
        instance: CaptureInstance,
        selected: TableSchema | Sequence[str],
        where: str | None = None,
        option: str = "",
        as_bytes: Set[str] = frozenset(),
    ) -> None:
        # See: TOP, with ORDER BY; Query Hints, OPTION
        self._conditions = [] if where is None else [f"({where})"]
        self._keys = instance.identity_columns
        if isinstance(selected, TableSchema):
            values = value_expressions(instance, selected, as_bytes)
            names = [column.name for column in selected.columns]
            self._places = {name: place for place, name in enumerate(names)}
        else:
            keys = (server_text(quote_name(column.name), column.type) for column in self._keys)
            values = [*selected, *keys]
            names = [column.name for column in self._keys]
            self._places = {name: place for place, name in enumerate(names, len(selected))}
        self._width = len(values)
        table = quote_table(instance.source_table)
        end = f" {option}" if option else ""
        self.whole = f"SELECT {', '.join(values)} FROM {table}{self._where()}{end}"
        texts = [text_of_time(column) for column in self._keys if needs_server_text(column)]
        self.texts = len(texts)
        values += texts
        self._select = f"SELECT TOP (?) {', '.join(values)} FROM {table}"
        order = ", ".join(quote_name(column.name) for column in self._keys)
        self._order = f" ORDER BY {order}{end}"

    @property
    def depth(self) -> int:
        """The number of identity columns, and of statements that read what follows a key."""
        return len(self._keys)

    def first(self) -> str:
        """Return the statement for the first rows; its parameter is the row limit."""
        return f"{self._select}{self._where()}{self._order}"

    def rows_after(self, level: int) -> str:
        """Return the statement for the rows after a key that share its first columns.

        Its parameters are the row limit, then the texts of the shared columns and of the next one.

        Args:
            level: how many first columns are equal; the next one is larger.
        """
        equal = [f"{quote_name(c.name)} = {typed_parameter(c)}" for c in self._keys[:level]]
        next_one = self._keys[level]
        greater = f"{quote_name(next_one.name)} > {typed_parameter(next_one)}"
        return f"{self._select}{self._where(*equal, greater)}{self._order}"

    def _where(self, *further: str) -> str:
        conditions = [*self._conditions, *further]
        return f" WHERE {' AND '.join(conditions)}" if conditions else ""

    def values_of(self, rows: Sequence[Sequence[Any]]) -> Sequence[Sequence[Any]]:
        """Return rows without the key texts after the version's columns."""
        if rows and len(rows[0]) > self._width:
            return [row[: self._width] for row in rows]
        return rows

    def key_of(self, row: Sequence[Any]) -> list[str]:
        """Return the texts of a row's key."""
        texts: list[str] = []
        written = self._width
        for column in self._keys:
            if needs_server_text(column):
                texts.append(row[written])
                written += 1
            else:
                texts.append(key_text(column, row[self._places[column.name]]))
        return texts


class KeyWalk:
    """A read of a table from key to key, a statement at a time.

    Attributes:
        after: texts of the last key that was read; None at the start.
    """

    def __init__(self, statements: ChunkStatements, after: list[str] | None = None) -> None:
        self._statements = statements
        self._level = statements.depth - 1
        self.after = after

    def next(self, statements: ChunkStatements | None = None) -> tuple[str, list[str]]:
        """Return the next statement, and its parameters after the row limit.

        Args:
            statements: those of another reader of the same rows.
        """
        chosen = statements or self._statements
        if self.after is None:
            return chosen.first(), []
        return chosen.rows_after(self._level), self.after[: self._level + 1]

    def passed(self, last: Sequence[Any] | None, *, is_full: bool) -> bool:
        """Continue after the rows of the statement; return whether the table has no more.

        Args:
            last: the last of these rows; None without rows.
            is_full: whether the statement has more of them.
        """
        is_everything = self.after is None or self._level == 0
        if last is not None:
            self.after = self._statements.key_of(last)
        if is_full:
            self._level = self._statements.depth - 1
        elif not is_everything:
            self._level -= 1
        return is_everything and not is_full


def check_reads_back(connection: Connection, instance: CaptureInstance, key: Sequence[str]) -> None:
    """Check that the server reads the texts of a key as they are.

    Only bytes that are no character of a double-byte code page become another text.

    See: Collation Precedence
    Inferred: does a cast of nvarchar with COLLATE to varchar use the code page of that collation?

    Raises:
        UnreadableKey: it does not, so other rows would follow the key.
        SourceError: the server did not answer.
    """
    texts = [
        (column, text)
        for column, text in zip(instance.identity_columns, key, strict=True)
        if is_narrow(column) and not text.isascii()
    ]
    if not texts:
        return
    values = (server_text(typed_parameter(column), column.type) for column, _ in texts)
    read = connection.query(f"SELECT {', '.join(values)}", *(text for _, text in texts))[0]
    wrong = [column.name for (column, text), now in zip(texts, read, strict=True) if now != text]
    if wrong:
        raise UnreadableKey(instance.table, wrong)


def row_statement(instance: CaptureInstance, schema: TableSchema, places: Sequence[int]) -> str:
    """Return the statement that reads columns of one row, or nothing if the row is locked.

    Its parameters are the texts of the identity's columns. READPAST alone is refused (650) under
    SNAPSHOT and under READ_COMMITTED_SNAPSHOT, where no lock is taken that it could pass.
    READCOMMITTEDLOCK takes locks whatever the database's options are, but is named only for READ
    COMMITTED, so the caller's batch begins with READ_COMMITTED.

    See: Table hints (Transact-SQL), READPAST and READCOMMITTEDLOCK.

    Args:
        schema: the version whose columns are selected.
        places: the indexes of the columns to select.
    """
    values = value_expressions(instance, schema)
    keys = [f"{quote_name(c.name)} = {typed_parameter(c)}" for c in instance.identity_columns]
    return (
        f"SELECT {', '.join(values[place] for place in places)}"
        f" FROM {quote_table(instance.source_table)}"
        f" WITH (READCOMMITTEDLOCK, READPAST) WHERE {' AND '.join(keys)};"
    )


def check_statement(instance: CaptureInstance, where: str) -> str:
    """Return a statement that reads no row but makes the server check a condition.

    Its parameter is the row limit, 0. A statement with a parameter is prepared like those that will
    read rows.
    """
    # See: TOP. Inferred: is the condition compiled, so that it is refused, although TOP (0) reads
    # no row?
    return f"SELECT TOP (?) 1 FROM {quote_table(instance.source_table)} WHERE ({where})"


def value_expressions(
    instance: CaptureInstance, schema: TableSchema, as_bytes: Set[str] = frozenset()
) -> list[str]:
    """Return the columns as in the change table: computed and dropped ones are NULL."""
    held = {
        column.name: column.type
        for column in instance.columns
        if column.in_source and not column.is_computed
    }
    return [
        source_value(column, held[column.name], as_bytes=column.name in as_bytes)
        if column.name in held
        else "NULL"
        for column in schema.columns
    ]
