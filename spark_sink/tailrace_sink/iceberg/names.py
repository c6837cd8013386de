"""Names of tables in an Iceberg catalog, of their branch, and of the classes used. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Self

from tailrace_sink.errors import NameTaken
from tailrace_sink.tables.lake_table import quote

BRANCH: Final = "tailrace"
"""The branch on which a table's changes are staged. Readers of the table do not see it."""
MAIN: Final = "main"
"""The branch that readers see."""
PLACE_PROPERTY: Final = "tailrace.place"
"""Property with the lake and the path of a table: two lakes may use one catalog."""


def place_of(lake: str, path: str) -> str:
    """Return the place of a table of a lake, whose address is Hadoop's."""
    return f"{lake}/{path}"


def require_place(place: str | None, lake: str, path: str, full_name: str) -> None:
    """Check by its place (``PLACE_PROPERTY``) that a table is the one of a lake at a path.

    Raises:
        NameTaken: it is another one.
    """
    if place != place_of(lake, path):
        whose = "a table of somebody else" if place is None else f"the table {place}"
        fix = "sink.iceberg.namespace to another one; then tailrace snapshot reads the table again"
        raise NameTaken(full_name, whose, fix)


@dataclass(frozen=True, slots=True, order=True)
class TableId:
    """Name of a table in a catalog."""

    namespace: tuple[str, ...]
    name: str

    @classmethod
    def at(cls, path: str, namespace: str) -> Self:
        """Return the name of the table at a path below the lake.

        Args:
            namespace: of a table, from {database} and {schema}.
        """
        database, schema, table = path.split("/")
        # A dot separates names; and <table>.history is a table of metadata in Iceberg.
        name = table.replace(".", "__")
        return cls((namespace.format(database=database, schema=schema),), name)

    def __str__(self) -> str:
        return ".".join((*self.namespace, self.name))

    def sql(self, catalog: str) -> str:
        """Return the quoted name for Spark SQL."""
        return ".".join(map(quote, (catalog, *self.namespace, self.name)))

    def staged_sql(self, catalog: str) -> str:
        """Return the quoted name of the staged state for Spark SQL."""
        return f"{self.sql(catalog)}.{quote(f'branch_{BRANCH}')}"
