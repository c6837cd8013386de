"""The format of a lake's tables: the only place that knows which one implements the port."""

from __future__ import annotations

from tailrace_sink.delta.tables import DeltaFormat, DeltaTables
from tailrace_sink.options.config import SinkConfig
from tailrace_sink.ports.table_format import TableFormat, TableReader


def format_of(config: SinkConfig) -> TableFormat:
    """Return the format that a sink writes."""
    return DeltaFormat(config)


def tables_of(lake: str) -> TableReader:
    """Return the tables of a lake, for its readers."""
    return DeltaTables(lake)
