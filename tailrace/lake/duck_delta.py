"""DuckDB with its extension that reads Delta tables."""

from __future__ import annotations

from typing import Any

from tailrace.lake.store import LakeStore


def with_delta(store: LakeStore) -> Any:
    """Open DuckDB with its extension that reads the Delta tables of a store.

    Raises:
        ImportError: DuckDB or an extension is missing.
    """
    import duckdb

    duck = duckdb.connect()
    try:
        # It otherwise reads instants of INT96 as times in the machine's zone.
        duck.execute("SET TimeZone = 'UTC'")
        for name in ("delta",) if store.s3 is None else ("delta", "httpfs", "aws"):
            _load(duck, name)
        if store.s3 is not None:
            duck.execute(store.s3.duckdb())
    except duckdb.Error as error:
        raise ImportError(f"DuckDB cannot load its extension: {error}") from error
    return duck


def _load(duck: Any, name: str) -> None:
    """Load an extension that is installed, or that a package brings."""
    import duckdb

    try:
        duck.execute(f"LOAD {name}")
    except duckdb.Error:
        from duckdb_extensions import import_extension

        import_extension(name, con=duck)
        duck.execute(f"LOAD {name}")
