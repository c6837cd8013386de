"""The changes of a lake table with several source tables: those of each, with their origin."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import reduce

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 - PySpark's own convention

from tailrace_schemas.events.envelope import TableSchema
from tailrace_schemas.topics.topic_names import TableName
from tailrace_sink.reading.change_table import NoChanges
from tailrace_sink.rows.writer_schema import WriterSchema
from tailrace_sink.tables.origins import ORIGIN, origin_values


@dataclass(frozen=True, slots=True)
class SourceEvents:
    """The events of one source table in the log.

    Attributes:
        versions: schema versions of the table, also of events that are not among these.
    """

    table: TableName
    values: DataFrame
    writers: tuple[WriterSchema, ...]
    versions: tuple[TableSchema, ...]


def events_of_all(
    sources: Iterable[TableName], events: Callable[[TableName], SourceEvents]
) -> list[SourceEvents]:
    """Find the events of several source tables.

    Args:
        events: finds those of one table.

    Raises:
        ChangesUnknown: the changes of one table are not all known, or there are none of any table.
    """
    parts, missing = [], []
    for source in sources:
        try:
            parts.append(events(source))
        except NoChanges as error:
            missing.append(error)
    if not parts:
        raise missing[0]
    return parts


def with_origins(
    parts: Sequence[SourceEvents], decoded: Callable[[SourceEvents], DataFrame]
) -> DataFrame:
    """Combine the changes of several source tables.

    Args:
        decoded: the changes of one; all with equal columns.

    Returns:
        The columns of ``decoded``, after those of the origin.
    """
    frames = []
    for part in parts:
        values = origin_values(part.table)
        origin = [F.lit(values[id_]).alias(name) for name, id_ in ORIGIN.items()]
        frames.append(decoded(part).select(*origin, "*"))
    return reduce(DataFrame.unionByName, frames)
