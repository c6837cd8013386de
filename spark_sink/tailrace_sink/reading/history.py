"""Validity intervals of the rows of a table with an append-only companion."""

from __future__ import annotations

from typing import Final

from pyspark.sql import DataFrame

from tailrace_sink.rows.decode import UNAVAILABLE
from tailrace_sink.rows.intervals import intervals
from tailrace_sink.tables.lake_table import (
    CURRENT,
    OWN_COLUMNS,
    VALID_FROM,
    VALID_FROM_LSN,
    VALID_TO,
    VALID_TO_LSN,
    quote,
)

_ADDED: Final = (VALID_FROM_LSN, VALID_TO_LSN, VALID_FROM, VALID_TO, CURRENT)


def history(changes: DataFrame, key: list[str]) -> DataFrame:
    """Compute validity intervals (SCD type 2) of the rows of an append-only table.

    Args:
        changes: rows of a ``.changes`` table.
        key: names of its key columns.

    Returns:
        The rows with ``_cdc_valid_from_lsn``, ``_cdc_valid_to_lsn``, ``_cdc_valid_from``,
        ``_cdc_valid_to`` and ``_cdc_is_current``; ``_cdc_valid_from`` and ``_cdc_valid_to`` are
        commit times, and open ends are NULL. A delete ends an interval and is no row itself. A
        snapshot row that equals the row that was there starts no interval. A row that the source
        lost unseen ends with the snapshot that no longer found it.
    """
    own = {*OWN_COLUMNS, UNAVAILABLE}
    names = [name for name in changes.columns if name not in own]
    found = intervals(changes, names, key)
    return found.select(*map(quote, [*changes.columns, *_ADDED]))
