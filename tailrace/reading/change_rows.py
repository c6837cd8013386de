"""Rows of change tables, for who shows them; without what the options hide."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Set
from dataclasses import dataclass
from typing import Any

from tailrace_publisher.change.instance import CaptureInstance
from tailrace_publisher.encode.columns.value_hash import rules_of
from tailrace_publisher.options.publisher_config import PublisherConfig
from tailrace_publisher.ports import Connection
from tailrace_publisher.source.catalog.hidden_data import hidden_data
from tailrace_publisher.source.catalog.instances import read_catalog
from tailrace_publisher.source.catalog.table_instances import TableInstances, by_table
from tailrace_publisher.source.connection.quoting import quote_name
from tailrace_publisher.source.log.queries import change_table
from tailrace_publisher.source.pages.column_values import server_text
from tailrace_schemas.position.change_position import ChangePosition, Operation
from tailrace_schemas.position.lsn import Lsn
from tailrace_schemas.topics.topic_names import meant_by, told_apart


class NotThere(Exception):
    """What is asked for is not there, or not named rightly; says what is."""


@dataclass(frozen=True, slots=True)
class ChangeRow:
    """A row of a change table, without the before image of an update."""

    position: ChangePosition
    instance: str
    values: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class ChangesAsked:
    """Which rows of a change table."""

    condition: str
    parameters: tuple[Any, ...]
    at_most: int
    is_newest_first: bool = False


def instances_of(
    config: PublisherConfig, connection: Connection, table: tuple[str, str]
) -> TableInstances:
    """The capture instances of a table, oldest first.

    Args:
        table: schema and name, in any case.

    Raises:
        NotThere: it is not captured; names those that are.
        SourceError: the server did not answer.
    """
    catalog = read_catalog(connection, config.source.database, config.message_keys)
    tables = by_table(catalog.instances)
    meant = meant_by(".".join(table), tables)
    if len(meant) > 1:
        raise NotThere(told_apart(".".join(table), meant))
    if meant:
        return tables[meant[0]]
    there = ", ".join(sorted(f"{name.schema}.{name.table}" for name in tables))
    raise NotThere(f"table {'.'.join(table)} is not captured: there are {there or 'none'}")


def hidden_columns(
    config: PublisherConfig, connection: Connection, instances: Iterable[CaptureInstance]
) -> set[str]:
    """Names of the columns that are not shown as they are.

    The options leave them out, mask, cut or hash them, or the login reads masks of them in the
    table or in a change table.

    Raises:
        SourceError: the server did not answer.
    """
    rules, masked = rules_of(config.columns), hidden_data(connection).masked
    found = {c.name for i in instances for c in i.columns if rules.changes(i, c)}
    for instance in instances:
        for object_id in (instance.source_object_id, instance.object_id):
            found.update(masked.get(object_id, ()))
    return found


def change_rows(
    connection: Connection, instance: CaptureInstance, which: ChangesAsked, hidden: Set[str]
) -> list[ChangeRow]:
    """Rows of one change table, without the before images of updates.

    Raises:
        SourceError: the server did not answer, or refuses a parameter.
    """
    shown = [column for column in instance.columns if column.name not in hidden]
    captured = [column.name for column in shown]
    values = ", ".join(server_text(quote_name(column.name), column.type) for column in shown)
    command_id = "[__$command_id]" if instance.ordered_by_command_id else "0"
    columns = ["[__$start_lsn]", *[command_id][: instance.ordered_by_command_id], "[__$seqval]"]
    order = ", ".join(f"{name} DESC" if which.is_newest_first else name for name in columns)
    rows = connection.query(
        f"SELECT TOP (?) [__$start_lsn], {command_id}, [__$seqval], [__$operation],"
        f" {values} FROM {change_table(instance.name)}"
        f" WHERE [__$operation] <> {int(Operation.UPDATE_BEFORE)} AND {which.condition}"
        f" ORDER BY {order}",
        which.at_most,
        *which.parameters,
    )
    return [
        ChangeRow(
            ChangePosition(
                Lsn.from_bytes(row[0]), row[1] or 0, Lsn.from_bytes(row[2]), Operation(row[3])
            ),
            instance.name,
            dict(zip(captured, row[4:], strict=True)),
        )
        for row in rows
    ]
