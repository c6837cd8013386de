"""The catalog in SQLite: one row per schema object, as JSON.

JSON rather than columns: the frozen dataclasses of model.py are the schema, and nothing queries
these rows but the loading at start.
"""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import Any, Final

import apsw

from tailrace_emulator.storage.model import (
    Check,
    Column,
    EncodedColumns,
    FilterTerm,
    ForeignKey,
    Identity,
    Index,
    Table,
)
from tailrace_emulator.values.fetching import fetch
from tailrace_emulator.values.types import SqlType

SERVER_SCHEMA: Final = """
CREATE TABLE IF NOT EXISTS databases(
  database_id INTEGER PRIMARY KEY, name TEXT NOT NULL, create_ticks INTEGER NOT NULL,
  collation TEXT NOT NULL, guid TEXT NOT NULL, recovery_fork_guid TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS catalog(
  database_id INTEGER NOT NULL, kind TEXT NOT NULL, key TEXT NOT NULL, value TEXT NOT NULL,
  PRIMARY KEY (database_id, kind, key)) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS object_ids(
  database_id INTEGER PRIMARY KEY, taken INTEGER NOT NULL);
CREATE TABLE IF NOT EXISTS identity_values(
  database_id INTEGER NOT NULL, object_id INTEGER NOT NULL, last_value INTEGER NOT NULL,
  PRIMARY KEY (database_id, object_id)) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS row_versions(
  database_id INTEGER PRIMARY KEY, last_value INTEGER NOT NULL);
"""

COLUMNS: Final = "columns"
PARAMETERS: Final = "parameters"
PROPERTY: Final = "property"
STATISTICS: Final = "statistics"
BINDING: Final = "binding"
SYNONYM: Final = "synonym"
SEQUENCE: Final = "sequence"
USER_TYPE: Final = "user_type"

_RENAMED: Final = {"is_tracked_by_cdc": "is_tracked"}
"""Names that fields of a table had in files of releases before this one."""


def put_entry(
    connection: apsw.Connection, database_id: int, kind: str, key: str, value: str
) -> None:
    """Add or replace one catalog row."""
    connection.execute(
        "INSERT INTO catalog(database_id, kind, key, value) VALUES (?, ?, ?, ?)"
        " ON CONFLICT DO UPDATE SET value = excluded.value",
        (database_id, kind, key, value),
    )


def delete_entry(connection: apsw.Connection, database_id: int, kind: str, key: str) -> None:
    """Remove one catalog row."""
    connection.execute(
        "DELETE FROM catalog WHERE database_id = ? AND kind = ? AND key = ?",
        (database_id, kind, key),
    )


def entries(connection: apsw.Connection, database_id: int) -> list[tuple[str, str, str]]:
    """All (kind, key, value) of a database."""
    return fetch(
        connection, "SELECT kind, key, value FROM catalog WHERE database_id = ?", (database_id,)
    )


def table_entry(connection: apsw.Connection, table: Table) -> Table | None:
    """The table in the catalog that the connection sees; None if it is not there."""
    rows = fetch(
        connection,
        "SELECT value FROM catalog WHERE database_id = ? AND kind = 'table' AND key = ?",
        (table.database_id, str(table.object_id)),
    )
    return next((table_from_text(text) for (text,) in rows), None)


def table_to_text(table: Table) -> str:
    """A table as JSON."""
    raw = asdict(table)
    del raw["sqlite_name"]  # it follows from the rest
    return json.dumps(raw, separators=(",", ":"), ensure_ascii=False)


def table_from_text(text: str) -> Table:
    """The inverse of :func:`table_to_text`."""
    raw: dict[str, Any] = json.loads(text)
    raw["columns"] = tuple(column_from_json(column) for column in raw["columns"])
    raw["indexes"] = tuple(index_from_json(index) for index in raw["indexes"])
    raw["foreign_keys"] = tuple(ForeignKey(**_tuples(key)) for key in raw["foreign_keys"])
    raw["checks"] = tuple(Check(**check) for check in raw["checks"])
    raw["partition_keys"] = tuple(raw.get("partition_keys", ()))
    for old, name in _RENAMED.items():
        if old in raw:
            raw[name] = raw.pop(old)
    if raw.get("encoded") is not None:
        raw["encoded"] = EncodedColumns(**raw["encoded"])
    return Table(**raw)


def index_from_json(raw: dict[str, Any]) -> Index:
    """An index from its JSON object."""
    raw["filter"] = [FilterTerm(**_tuples(term)) for term in raw.get("filter", ())]
    return Index(**_tuples(raw))


def column_from_json(raw: dict[str, Any]) -> Column:
    """A column from its JSON object."""
    raw["type"] = SqlType(**raw["type"])
    if raw["identity"] is not None:
        raw["identity"] = Identity(**raw["identity"])
    return Column(**raw)


def _tuples(raw: dict[str, Any]) -> dict[str, Any]:
    return {k: tuple(v) if isinstance(v, list) else v for k, v in raw.items()}
