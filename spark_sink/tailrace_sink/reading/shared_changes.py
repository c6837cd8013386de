"""The changes of a lake table with several source tables: those of each, with their origin."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import reduce

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 - PySpark's own convention

from tailrace_schemas.topics.topic_names import TableName
from tailrace_sink.errors import ChangesUnknown
from tailrace_sink.tables.origins import ORIGIN, origin_values


class NoChanges(ChangesUnknown):
    """The log has no event of a table up to a point."""


def changes_of_all(
    sources: Iterable[TableName], changes: Callable[[TableName], DataFrame]
) -> DataFrame:
    """Combine the changes of several source tables.

    Args:
        changes: reads those of one table.

    Returns:
        The columns of :func:`changes`, after those of the origin. ``before`` and ``after`` have the
        columns of all tables.

    Raises:
        ChangesUnknown: the changes of one table are not all known, or there are none of any table.
    """
    parts, missing = [], []
    for source in sources:
        try:
            rows = changes(source)
        except NoChanges as error:
            missing.append(error)
            continue
        values = origin_values(source)
        origin = [F.lit(values[id_]).alias(name) for name, id_ in ORIGIN.items()]
        parts.append(rows.select(*origin, "*"))
    if not parts:
        raise missing[0]
    return reduce(lambda one, other: one.unionByName(other, allowMissingColumns=True), parts)
