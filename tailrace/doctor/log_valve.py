"""The valve of the source's log: what it would give up, and whether it could."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from tailrace.doctor.asking import Source
from tailrace.doctor.findings import Finding, Fix, Judge, Part
from tailrace_publisher.daemon.upkeep.log_valve import read_log
from tailrace_publisher.errors import SourceError
from tailrace_publisher.options.publisher_config import PublisherConfig
from tailrace_publisher.source.catalog.capture_catalog import change_tables
from tailrace_publisher.source.connection.connection import OdbcConnection
from tailrace_schemas.topics.topic_names import TableName

_JUDGE: Final = Judge(Part.SERVER)
_NAME: Final = "source.log_valve"


def look_at_valve(source: Source, config: PublisherConfig) -> Iterator[Finding]:
    """Judge the valve, if it is configured.

    Raises:
        SourceError: the source did not answer.
    """
    valve = config.source.log_valve
    if not valve.is_on:
        return
    rows = change_tables(source.connection)
    captured = {TableName(source.database, row.schema, row.table) for row in rows}
    order = valve.order_of(filter(config.tables.selects, captured))
    if not order:
        yield _JUDGE.problem(
            _NAME,
            "its patterns match no table that is captured and selected",
            "nothing is given up, and a full log stops all writers",
            Fix("correct source.log_valve.tables"),
        )
        return
    try:
        with OdbcConnection(config.source.for_changes) as connection:
            reading = read_log(connection, at=0)
    except SourceError as error:
        yield _JUDGE.problem(_NAME, str(error), "a full log stops all writers")
        return
    names = ", ".join(f"{table.schema}.{table.table}" for table in order)
    yield _JUDGE.ok(
        _NAME,
        f"the log is {reading.percent:.0f} % full; from {valve.at_percent:g} % on it gives up, in"
        f" this order: {names}",
    )
