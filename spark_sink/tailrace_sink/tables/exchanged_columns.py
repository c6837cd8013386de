"""Columns that somebody else has put in the place of the sink's, under the same names. Pure.

That changes no file and no row of a table, so no commit of rows shows it. Yet all values of such a
column are gone, or are those of another one.
"""

from __future__ import annotations

from collections.abc import Mapping

from tailrace_sink.tables.column_identity import (
    COLUMNS_PROPERTY,
    PENDING_PROPERTY,
    parse_identities,
)
from tailrace_sink.tables.lake_table import OWN_COLUMNS

Ids = Mapping[str, int | str]
"""What the format knows each column by, by its name."""


def exchanged_columns(properties: Mapping[str, str], before: Ids, now: Ids) -> str | None:
    """Describe the exchanged columns of a table that the sink has not altered; None without any.

    Args:
        properties: the present ones, which announce the sink's own changes while they last.
    """
    if properties.get(PENDING_PROPERTY):
        return None
    try:
        ours = {*parse_identities(properties.get(COLUMNS_PROPERTY)), *OWN_COLUMNS}
    except ValueError:
        return None  # The table is described next, and stops for that.
    both = sorted(ours & before.keys() & now.keys())
    found = [name for name in both if before[name] != now[name]]
    return f"another column has the name {', '.join(found)}" if found else None
