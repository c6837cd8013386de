"""The table of names: which names lake tables have in the catalog, or why they have none."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

import pyarrow as pa
from deltalake import DeltaTable, write_deltalake
from deltalake.exceptions import TableNotFoundError

from tailrace_sink.log.delta_query import query_rows
from tailrace_sink.options.config import SinkConfig

Named = tuple[str, str]
"""Path of a table below the lake, and its name: ``schema.table``."""

_SCHEMA = pa.schema(
    [
        ("path", pa.string()),
        ("name", pa.string()),
        ("problem", pa.string()),
        ("catalog", pa.string()),
        ("written_at", pa.timestamp("us", tz="UTC")),
    ]
)


class NamesTable:
    """The table of names of one lake. It can be deleted: tables are then named again."""

    def __init__(self, config: SinkConfig) -> None:
        catalog = config.catalog
        self._path = config.names_path
        self._options = config.storage_options()
        # Without it, a lake that moves to another catalog would have no names there.
        self._catalog = f"{catalog.kind} {catalog.metastore} {catalog.name}"

    def read(self) -> set[Named]:
        """Return each path with a name in this catalog, and that name.

        A table has several where an earlier name could not be removed yet.
        """
        return {(row["path"], row["name"]) for row in self._rows() if row["problem"] is None}

    def problems(self) -> dict[str, str]:
        """Map the path of each table that has no name to the reason."""
        return {row["path"]: row["problem"] for row in self._rows() if row["problem"] is not None}

    def write(self, names: Mapping[Named, str | None]) -> None:
        """Replace all rows.

        Args:
            names: path and name to the reason why the catalog lacks the name; None if it is there.
        """
        now = datetime.now(UTC)
        rows = [
            {
                "path": path,
                "name": name,
                "problem": problem,
                "catalog": self._catalog,
                "written_at": now,
            }
            for (path, name), problem in sorted(names.items())
        ]
        table = pa.Table.from_pylist(rows, schema=_SCHEMA)
        write_deltalake(self._path, table, mode="overwrite", storage_options=self._options)

    def _rows(self) -> list[dict[str, Any]]:
        try:
            table = DeltaTable(self._path, storage_options=self._options)
        except TableNotFoundError:
            return []
        rows = query_rows(table, "SELECT * FROM t")
        return [row for row in rows if row["catalog"] == self._catalog]
