"""SQLite statements for our tables: names are ids, so no name of a user gets into them."""

from __future__ import annotations

from tailrace_emulator.storage.collation import ordering_of
from tailrace_emulator.storage.encoded_rows import HIDDEN_COLUMNS
from tailrace_emulator.storage.index_filter import filter_condition
from tailrace_emulator.storage.model import Column, Index, Table


def column_definition(column: Column) -> str:
    """A column of a CREATE TABLE: untyped, so that SQLite stores values exactly as given."""
    ordering = ordering_of(column.type)
    return column.sqlite_name if ordering is None else f"{column.sqlite_name} COLLATE {ordering}"


def create_table_text(table: Table, name: str, *, temporary: bool = False) -> str:
    """CREATE TABLE with the hidden row id ``rid``."""
    columns = "".join(f", {column_definition(column)}" for column in table.columns)
    if not temporary and table.encoded is not None:
        columns += "".join(f", {name}" for name in HIDDEN_COLUMNS)
    kind = "TEMP TABLE" if temporary else "TABLE"
    return f'CREATE {kind} "{name}"(rid INTEGER PRIMARY KEY{columns})'


def index_name(table: Table, index: Index) -> str:
    """An index's name inside SQLite."""
    return f"x{table.database_id}_{table.object_id}_{index.index_id}"


def create_index_text(table: Table, index: Index) -> str:
    """CREATE INDEX; key columns keep their table's collation."""
    terms = []
    for column_id, descending in zip(index.column_ids, index.descending, strict=True):
        terms.append(f"c{column_id}{' DESC' if descending else ''}")
    unique = "UNIQUE " if index.unique else ""
    return (
        f'CREATE {unique}INDEX "{index_name(table, index)}"'
        f' ON "{table.sqlite_name}"({", ".join(terms)}){where_text(index)}'
    )


def nulls_index(table: Table, index: Index) -> str | None:
    """``(terms) WHERE condition`` of a unique index in which NULL equals NULL; None without NULLs.

    SQLite's own unique indexes take any number of NULLs.
    """
    columns = [c for i in index.column_ids if (c := table.column_by_id(i)) is not None]
    nullable = [c for c in columns if c.nullable]
    if not index.unique or not nullable:
        return None
    terms = []
    for column in columns:
        ordering = ordering_of(column.type)
        collate = "" if ordering is None else f" COLLATE {ordering}"
        terms.append(f"ifnull({column.sqlite_name}, 0){collate}, {column.sqlite_name} IS NULL")
    condition = " OR ".join(f"{c.sqlite_name} IS NULL" for c in nullable)
    filtered = f"{filter_condition(index.filter)} AND " if index.filter else ""
    return f"({', '.join(terms)}) WHERE {filtered}({condition})"


def where_text(index: Index) -> str:
    """The WHERE clause of a filtered index, or nothing."""
    return f" WHERE {filter_condition(index.filter)}" if index.filter else ""


def column_list(table: Table) -> str:
    """The table's columns, comma-separated, without ``rid``."""
    return ", ".join(column.sqlite_name for column in table.columns)
