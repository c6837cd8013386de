"""Lake tables that have no name in the catalog, read without a JVM."""

from __future__ import annotations

from collections.abc import Iterator

from tailrace.reading.lake import CommitRows
from tailrace_sink.options.catalog_options import CatalogKind
from tailrace_sink.options.config import SinkConfig
from tailrace_sink.tables.catalog_names import catalog_names


def unnamed(config: SinkConfig) -> Iterator[str]:
    """Say of each table of the newest cut that has no name yet why; nothing without a catalog."""
    if config.catalog.kind is CatalogKind.NONE:
        return
    from tailrace_sink.log.names_table import NamesTable

    options = config.storage_options()
    rows = CommitRows(config.commits_path, options).read()
    names = NamesTable(config)
    known, problems = names.read(), names.problems()
    paths = filter(config.has_lake_table, rows[-1].tables if rows else ())
    for path, name in catalog_names(paths, config.catalog.schema_name).items():
        if (path, str(name)) not in known:
            reason = problems.get(path, "the sink has not tried yet")
            yield f"{path} has no name in the catalog: {name} is not there ({reason})"
