"""The statements that read a table in the order of its identity.

What is behind a composite key (a, b, c) comes from three statements, one after another: the rest of
the rows with its a and b, the rest of those with its a, and the rows with a larger a. Each is a
seek of the index. One condition for all of them would be a chain of ORs, for which a server finds
no place to begin: chunk n would read the n - 1 chunks before it again.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from tailrace_publisher.change.instance import CapturedColumn, CaptureInstance
from tailrace_publisher.snapshot.key_text import (
    key_text,
    needs_server_text,
    server_text,
    typed_parameter,
)
from tailrace_publisher.source.connection.connection import quote_name
from tailrace_publisher.source.pages.page_statements import value_expression
from tailrace_schemas.events.envelope import SchemaColumn, TableSchema


class ChunkStatements:
    """The statements of one (instance, version), and the key of a row that they give.

    Attributes:
        texts: how many texts of the key they give behind the version's columns.

    Args:
        instance: the capture instance.
        schema: the version whose columns are wanted.
        where: a condition that rows must meet; None for all rows.
    """

    def __init__(
        self, instance: CaptureInstance, schema: TableSchema, where: str | None = None
    ) -> None:
        self._conditions = [] if where is None else [f"({where})"]
        self._keys = instance.identity_columns
        self._width = len(schema.columns)
        self._places = {column.name: place for place, column in enumerate(schema.columns)}
        table = _table(instance)
        values = _expressions(instance, schema)
        self.whole = f"SELECT {', '.join(values)} FROM {table}{self._where()}"
        texts = [server_text(column) for column in self._keys if needs_server_text(column)]
        self.texts = len(texts)
        values += texts
        self._select = f"SELECT TOP (?) {', '.join(values)} FROM {table}"
        self._order = " ORDER BY " + ", ".join(quote_name(column.name) for column in self._keys)

    @property
    def depth(self) -> int:
        """How many columns the identity has, and statements it takes to read behind a key."""
        return len(self._keys)

    def first(self) -> str:
        """The rows from the beginning on; parameter: rows at most."""
        return f"{self._select}{self._where()}{self._order}"

    def rows_after(self, level: int) -> str:
        """The rows behind a key that have its first columns.

        Args:
            level: how many first columns are the same; the next one is larger. Parameters: rows at
                most, then the texts of those columns and of the next one.
        """
        equal = [f"{quote_name(c.name)} = {typed_parameter(c)}" for c in self._keys[:level]]
        next_one = self._keys[level]
        greater = f"{quote_name(next_one.name)} > {typed_parameter(next_one)}"
        return f"{self._select}{self._where(*equal, greater)}{self._order}"

    def _where(self, *further: str) -> str:
        conditions = [*self._conditions, *further]
        return f" WHERE {' AND '.join(conditions)}" if conditions else ""

    def values_of(self, rows: Sequence[Sequence[Any]]) -> Sequence[Sequence[Any]]:
        """Rows without the texts of the key behind the version's columns."""
        if rows and len(rows[0]) > self._width:
            return [row[: self._width] for row in rows]
        return rows

    def key_of(self, row: Sequence[Any]) -> list[str]:
        """The texts of a row's key."""
        texts: list[str] = []
        written = self._width
        for column in self._keys:
            if needs_server_text(column):
                texts.append(row[written])
                written += 1
            else:
                texts.append(key_text(column, row[self._places[column.name]]))
        return texts


def row_statement(instance: CaptureInstance, schema: TableSchema, places: Sequence[int]) -> str:
    """Reads some columns of one row, passing it over while somebody holds a lock on it.

    Args:
        instance: the capture instance.
        schema: the version whose columns are wanted.
        places: which of them. Parameters: the texts of the identity's columns.
    """
    values = _expressions(instance, schema)
    keys = [f"{quote_name(c.name)} = {typed_parameter(c)}" for c in instance.identity_columns]
    return (
        f"SELECT {', '.join(values[place] for place in places)} FROM {_table(instance)}"
        f" WITH (READPAST) WHERE {' AND '.join(keys)};"
    )


def check_statement(instance: CaptureInstance, where: str) -> str:
    """Reads nothing by a condition of rows: the server says whether it can; parameter: 0 rows.

    With a parameter it goes the way of the others, on which the driver looks for them.
    """
    return f"SELECT TOP (?) 1 FROM {_table(instance)} WHERE ({where})"


def _table(instance: CaptureInstance) -> str:
    source = instance.source_table
    return f"{quote_name(source.schema)}.{quote_name(source.table)}"


def _expressions(instance: CaptureInstance, schema: TableSchema) -> list[str]:
    """Values as the change table would hold them: computed and dropped columns are NULL there."""
    captured = {column.name: column for column in instance.columns}
    return [
        value_expression(column) if _has_values(captured, column) else "NULL"
        for column in schema.columns
    ]


def _has_values(captured: Mapping[str, CapturedColumn], column: SchemaColumn) -> bool:
    found = captured.get(column.name)
    return found is not None and found.in_source and not found.is_computed
