"""Names of tables in an Iceberg catalog, of their branch, and of the classes used. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from tailrace_sink.tables.lake_table import quote

BRANCH: Final = "tailrace"
"""The branch on which a table's changes are staged. Readers of the table do not see it."""
MAIN: Final = "main"
"""The branch that readers see."""


@dataclass(frozen=True, slots=True, order=True)
class TableId:
    """Name of a table in a catalog."""

    namespace: tuple[str, ...]
    name: str

    def __str__(self) -> str:
        return ".".join((*self.namespace, self.name))

    def sql(self, catalog: str) -> str:
        """Return the quoted name for Spark SQL."""
        return ".".join(map(quote, (catalog, *self.namespace, self.name)))

    def staged_sql(self, catalog: str) -> str:
        """Return the quoted name of the staged state for Spark SQL."""
        return f"{self.sql(catalog)}.{quote(f'branch_{BRANCH}')}"
