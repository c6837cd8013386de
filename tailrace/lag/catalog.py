"""Lake tables that have no name in the catalog, read without a JVM."""

from __future__ import annotations

from collections.abc import Iterator

from tailrace.lag.stages import StageUnavailable
from tailrace.reading.lake import CommitRows, unreadable
from tailrace_sink.options.catalog_options import CatalogKind
from tailrace_sink.options.config import SinkConfig
from tailrace_sink.tables.catalog_names import catalog_names


def unnamed(config: SinkConfig) -> Iterator[str]:
    """Say of each table of the newest cut that has no name yet why; nothing without a catalog.

    Raises:
        StageUnavailable: the commit table or the names cannot be read.
    """
    if config.catalog.kind is CatalogKind.NONE:
        return
    from deltalake.exceptions import DeltaError

    from tailrace_sink.log.names_table import NamesTable

    names = NamesTable(config)
    try:
        newest = CommitRows.of(config).newest()
        known, problems = names.read(), names.problems()
    except (DeltaError, OSError) as error:
        told = unreadable(config, "names", config.names_path, error)
        raise StageUnavailable(told) from error
    paths = filter(config.has_lake_table, () if newest is None else newest.tables)
    for path, name in catalog_names(paths, config.catalog.schema_name).items():
        if (path, str(name)) not in known:
            reason = problems.get(path, "the sink has not tried yet")
            yield f"{path} has no name in the catalog: {name} is not there ({reason})"
