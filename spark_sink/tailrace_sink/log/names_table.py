"""The table of names: which name each lake table has in the catalog, or why it has none."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

import pyarrow as pa
from deltalake import DeltaTable, write_deltalake
from deltalake.exceptions import TableNotFoundError

from tailrace_sink.log.delta_query import query_rows
from tailrace_sink.options.config import SinkConfig

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

    def read(self) -> dict[str, str]:
        """Map the path of each table that has a name in this catalog to that name."""
        return {row["path"]: row["name"] for row in self._rows() if row["problem"] is None}

    def problems(self) -> dict[str, str]:
        """Map the path of each table that has no name to the reason."""
        return {row["path"]: row["problem"] for row in self._rows() if row["problem"] is not None}

    def write(self, names: Mapping[str, str], problems: Mapping[str, str]) -> None:
        """Replace all rows.

        Args:
            problems: path to the reason, for each table that does not have its name.
        """
        now = datetime.now(UTC)
        rows = [
            {
                "path": path,
                "name": name,
                "problem": problems.get(path),
                "catalog": self._catalog,
                "written_at": now,
            }
            for path, name in sorted(names.items())
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
