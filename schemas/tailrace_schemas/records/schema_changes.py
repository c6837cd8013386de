"""Schema changes, published alongside the data: ``<prefix>.<database>.ddl``.

A record comes before the first event of its version. The Kafka transaction that holds it also
stores that it is published.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

from tailrace_schemas.avsc import load
from tailrace_schemas.events.envelope import SchemaColumn, TableSchema
from tailrace_schemas.position.lsn import Lsn

SCHEMA_CHANGE_KEY_SCHEMA: Final[dict[str, Any]] = load("schema_change_key")
"""Key of the DDL topic."""

SCHEMA_CHANGE_SCHEMA: Final[dict[str, Any]] = load("schema_change")
"""Value of the DDL topic; its fields are explained in avsc/schema_change.avsc."""


@dataclass(frozen=True, slots=True)
class SchemaChange:
    """DDL of a table, or the hand-over to a newer capture instance.

    Attributes:
        lsn: from where on it holds.
        before: version in force below it.
        after: version in force from there on.
        ddl: text of the statement; None for a hand-over.
        ts_ms: when it was run, milliseconds UTC; None where it is not known.
    """

    lsn: Lsn
    before: TableSchema
    after: TableSchema
    ddl: str | None = None
    ts_ms: int | None = None

    def to_key(self) -> dict[str, Any]:
        """The fields of ``SCHEMA_CHANGE_KEY_SCHEMA``."""
        table = self.after.table
        return {"database": table.database, "schema": table.schema, "table": table.table}

    def to_record(self) -> dict[str, Any]:
        """The fields of ``SCHEMA_CHANGE_SCHEMA``."""
        return {
            **self.to_key(),
            "lsn": str(self.lsn),
            "ts_ms": self.ts_ms,
            "ddl": self.ddl,
            "capture_instance": self.after.capture_instance,
            "before": [_column(column) for column in self.before.columns],
            "after": [_column(column) for column in self.after.columns],
        }


def _column(column: SchemaColumn) -> dict[str, Any]:
    return {
        "name": column.name,
        "type": str(column.type),
        "nullable": column.nullable,
        "key_ordinal": column.key_ordinal,
        "column_id": column.column_id,
    }
