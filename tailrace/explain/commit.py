"""``tailrace explain --lsn`` and ``--time``: what one commit did to a table, and where it is."""

from __future__ import annotations

from datetime import UTC, datetime

from tailrace.explain.row import Explanation, add_events
from tailrace.reading.change_rows import (
    ChangesAsked,
    NotThere,
    change_rows,
    hidden_columns,
    instances_of,
)
from tailrace.reading.moments import Moment
from tailrace.reading.tail import EventTail
from tailrace_publisher.change.instance import CaptureInstance
from tailrace_publisher.options.publisher_config import PublisherConfig
from tailrace_publisher.ports import Connection
from tailrace_publisher.source.catalog.table_instances import TableInstances
from tailrace_publisher.source.connection.connection import OdbcConnection
from tailrace_publisher.source.log.queries import change_table
from tailrace_publisher.source.log.start_lsn import at_server, map_time
from tailrace_schemas.position.lsn import Lsn


def explain_commit(
    config: PublisherConfig,
    tail: EventTail,
    table: tuple[str, str],
    moment: Moment,
    changes_max: int,
) -> Explanation:
    """Ask change tables and topic for the first commit at or after a moment that has the table.

    This also works for tables without a key. Columns that the options leave out, mask, cut or hash
    are not shown.

    Args:
        moment: an LSN or a time.
        changes_max: how many change rows at most, in their order.

    Raises:
        NotThere: the table is not captured, or has no such commit.
        SourceError: the server did not answer.
        KafkaException, TimeoutError, RegistryError: the topics could not be read.
    """
    with OdbcConnection(config.source) as connection:
        instances = instances_of(config, connection, table)
        lsn = _first_commit(connection, instances, moment, config.source.time_zone)
        hidden = hidden_columns(config, connection, instances)
        which = ChangesAsked("[__$start_lsn] = ?", (lsn.to_bytes(),), changes_max)
        rows = [row for i in instances for row in change_rows(connection, i, which, hidden)]
    found = Explanation(instances.newest.table, {})
    unique = {change.position: change for change in rows}
    found.changes = sorted(unique.values(), key=lambda change: change.position)[:changes_max]
    add_events(found, tail, config.topics)
    return found


def _first_commit(
    connection: Connection, instances: TableInstances, moment: Moment, zone: str | None
) -> Lsn:
    """The first commit at or after a moment that any of the change tables has."""
    name = f"{instances.newest.table.schema}.{instances.newest.table.table}"
    first = moment.lsn
    if moment.time_ms is not None:
        time = datetime.fromtimestamp(moment.time_ms / 1000, UTC)
        first = map_time(connection, at_server(connection, time, zone)).first
        if first is None:
            raise NotThere(f"nothing was committed at {time.isoformat()} or later")
    begin = first or Lsn.ZERO
    found = [_at_or_after(connection, instance, begin) for instance in instances]
    known = [lsn for lsn in found if lsn is not None]
    if not known:
        raise NotThere(
            f"the change tables of {name} hold no change at LSN {begin} or after it: give an"
            " earlier LSN or time; what cleanup has removed is in the topic (tailrace tail)"
        )
    return min(known)


def _at_or_after(connection: Connection, instance: CaptureInstance, lsn: Lsn) -> Lsn | None:
    rows = connection.query(
        f"SELECT TOP (1) [__$start_lsn] FROM {change_table(instance.name)}"
        " WHERE [__$start_lsn] >= ? ORDER BY [__$start_lsn]",
        lsn.to_bytes(),
    )
    return Lsn.from_bytes(rows[0][0]) if rows else None
