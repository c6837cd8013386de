"""Creating and dropping capture instances at a source that is proven to be the published one."""

from __future__ import annotations

from typing import Final

from tailrace_publisher.change.instance import CaptureInstance
from tailrace_publisher.errors import SourceError
from tailrace_publisher.source.catalog.capture_catalog import ChangeTableRow
from tailrace_publisher.source.catalog.capture_tsql import (
    CaptureOptions,
    disable_table,
    enable_table,
)
from tailrace_publisher.source.log.proven_source import ProvenSource

_TAKEN: Final = frozenset({22926, 22962})
"""The name is taken, or the table has two instances: somebody else was faster.

See: Database Engine events and errors, 22000 to 22999.
"""


def create_instance(
    source: ProvenSource, table: ChangeTableRow, present: CaptureInstance, options: CaptureOptions
) -> bool:
    """Create a capture instance next to the table's only one; return whether it was created.

    Args:
        table: the row of the present instance, with the table's present name.

    Raises:
        HistoryUnproven, SourceError: nothing was created.
    """
    statement = enable_table(table.schema, table.table, options)
    try:
        return source.change(statement, of=[present]) is not None
    except SourceError as error:
        if error.number not in _TAKEN:
            raise
        return False


def drop_instance(
    source: ProvenSource, table: ChangeTableRow, older: CaptureInstance, newer: CaptureInstance
) -> bool:
    """Drop the older of two capture instances; return whether it was dropped.

    Args:
        table: the row of the older instance, with the table's present name.

    Raises:
        HistoryUnproven, SourceError: nothing was dropped.
    """
    statement = disable_table(table.schema, table.table, table.instance)
    return source.change(statement, of=[older, newer]) is not None
