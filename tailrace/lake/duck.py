"""DuckDB over the tables of a cut."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from tailrace.lake.errors import QueryFailed, from_extra
from tailrace_schemas.topics.topic_names import TableName
from tailrace_sink.errors import SinkError
from tailrace_sink.reading.cut_tables import CutTables
from tailrace_sink.tables.lake_table import COMPANIONS, Kind, table_path

if TYPE_CHECKING:
    import pyarrow as pa


class Tables(Protocol):
    """A cut, as far as queries need it."""

    @property
    def at(self) -> CutTables:
        """Its tables."""

    def dataset(
        self, table: TableName | str, *, is_changes: bool = False, is_history: bool = False
    ) -> Any:
        """Return one table as a pyarrow dataset."""


@dataclass(frozen=True, slots=True)
class _View:
    """A table of a cut, or a companion of one, as DuckDB names it."""

    table: TableName
    kind: Kind

    @property
    def name(self) -> str:
        return self.table.table + COMPANIONS.get(self.kind, "")

    @property
    def companion(self) -> dict[str, bool]:
        return {"is_changes": self.kind is Kind.CHANGES, "is_history": self.kind is Kind.HISTORY}

    def __str__(self) -> str:
        """As a statement names it."""
        parts = (self.table.schema, self.name)
        return ".".join(of if of.isidentifier() else _quoted(of) for of in parts)


def query_over(cut: Tables, sql: str, duck: Any = None) -> Any:
    """Run a statement of DuckDB over the tables of a cut.

    Tables are ``schema.table``, companions ``schema."table.changes"`` and
    ``schema."table.history"``. Only tables that the statement names are read.

    Args:
        duck: the connection, in which the views stay; None: one of its own.

    Returns:
        A relation of DuckDB; None for a statement without a result.

    Raises:
        QueryFailed: DuckDB refuses the statement.
        SinkError: a table that it names cannot be read: see ``Cut.read``.
    """
    with from_extra("lake"):
        import duckdb

    if not sql.strip():
        raise QueryFailed("the statement is empty", "write a SELECT")
    duck = duck or duckdb.connect()
    refused: list[SinkError] = []
    try:
        refused = _create_views(cut, sql, duck)
        return duck.sql(sql)
    except duckdb.CatalogException as error:
        for reason in refused:
            raise reason from error
        known = ", ".join(map(str, _views(cut))) or "none"
        raise QueryFailed.of(error, f"use a table of the cut: {known}") from error
    except duckdb.Error as error:
        raise _failed(error) from error


def rows_over(cut: Tables, sql: str) -> pa.Table | None:
    """Run a statement of DuckDB over the tables of a cut, and fetch its rows.

    Raises:
        QueryFailed: DuckDB refuses the statement, or a value in it.
        SinkError: a table that it names cannot be read: see ``Cut.read``.
    """
    with from_extra("lake"):
        import duckdb

    found = query_over(cut, sql)
    try:
        return None if found is None else found.to_arrow_table()
    except duckdb.Error as error:
        raise _failed(error) from error


def _failed(error: Exception) -> QueryFailed:
    """Return our error for one of DuckDB's."""
    fixes = {
        "BinderException": "correct the statement; DESCRIBE schema.table lists its columns",
        "ConversionException": "correct the cast, or use TRY_CAST",
        "ConnectionException": "pass a connection that is open",
    }
    return QueryFailed.of(error, fixes.get(type(error).__name__, "correct the statement"))


def _create_views(cut: Tables, sql: str, duck: Any) -> list[SinkError]:
    """Create the views that a statement may need.

    Returns:
        The errors of tables that cannot be read, which the statement may not need.
    """
    refused = []
    text = sql.replace('""', '"')
    for number, view in enumerate(_views(cut)):
        if not re.search(rf"(?<!\w){re.escape(view.name)}(?!\w)", text, re.IGNORECASE):
            continue
        try:
            rows = cut.dataset(view.table, **view.companion)
        except SinkError as error:
            refused.append(error)
            continue
        source = f"_tailrace_{number}"
        schema = _quoted(view.table.schema)
        duck.register(source, rows)
        duck.execute(f"CREATE SCHEMA IF NOT EXISTS {schema}")
        duck.execute(
            f"CREATE OR REPLACE VIEW {schema}.{_quoted(view.name)} AS SELECT * FROM {source}"
        )
    return refused


def _views(cut: Tables) -> Iterator[_View]:
    for table in cut.at.tables:
        yield _View(table, Kind.MIRROR)
        for kind in COMPANIONS:
            if table_path(table, kind) in cut.at.versions:
                yield _View(table, kind)


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'
