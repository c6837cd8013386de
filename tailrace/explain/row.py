"""``tailrace explain``: one row, from the source through change table and topic to the lake.

Every stage shows what it holds of the row: the source now, change tables and events by position,
and the lake. For the lake it also names the cut in which the newest change arrived.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass, field
from typing import Any, Final

from tailrace.reading.change_rows import (
    ChangeRow,
    ChangesAsked,
    NotThere,
    change_rows,
    hidden_columns,
    instances_of,
)
from tailrace.reading.lake import CommitRow
from tailrace.reading.moments import Moment
from tailrace.reading.tail import EventTail
from tailrace.reading.topics import Event
from tailrace_publisher.change.instance import CaptureInstance
from tailrace_publisher.errors import SourceError
from tailrace_publisher.options.publisher_config import PublisherConfig
from tailrace_publisher.ports import Connection
from tailrace_publisher.source.connection.connection import OdbcConnection
from tailrace_publisher.source.connection.quoting import quote_name, quote_table
from tailrace_publisher.source.pages.column_values import server_text
from tailrace_schemas.position.change_position import ChangePosition
from tailrace_schemas.position.lsn import Lsn
from tailrace_schemas.topics.topic_names import TableName, TopicNames

_DATA_EXCEPTION: Final = "22"
"""Class of SQLSTATEs: a value is none of the type that it should be of."""

Key = Mapping[str, Any]


@dataclass(slots=True)
class Explanation:
    """What each stage holds of a row.

    Attributes:
        key: empty if the rows of a commit are explained instead of one row.
        now: the row in the source; None if it has none.
        changes: its last change rows, newest first.
        events: their events by position; those that are missing are not published (yet), or were
            removed by retention.
        lake: the row in the lake; None if it has none.
        lake_problem: why the lake could not be read; None if it was.
        cuts: by commit LSN, the first cut that includes it.
    """

    table: TableName
    key: Key
    now: Mapping[str, Any] | None = None
    changes: list[ChangeRow] = field(default_factory=list)
    events: dict[ChangePosition, Event] = field(default_factory=dict)
    lake: Mapping[str, Any] | None = None
    lake_problem: str | None = None
    cuts: dict[Lsn, CommitRow] = field(default_factory=dict)


def parse_key(columns: Sequence[str], text: str) -> dict[str, Any]:
    """The key that a text means.

    Args:
        columns: the key's columns, in order.
        text: the value of a key of one column; of several, a JSON object or array. A JSON object
            is also accepted for one column.

    Raises:
        NotThere: the text does not fit the key.
    """
    wanted = ", ".join(columns)
    try:
        given = json.loads(text)
    except ValueError:
        given = None
    if isinstance(given, dict):
        by_name = {name.casefold(): value for name, value in given.items()}
        if by_name.keys() == {column.casefold() for column in columns}:
            return {column: by_name[column.casefold()] for column in columns}
    if len(columns) == 1:
        return {columns[0]: text}
    if isinstance(given, list) and len(given) == len(columns):
        return dict(zip(columns, given, strict=True))
    raise NotThere(f"{text!r} is not a key: write a JSON object or array of its columns, {wanted}")


def explain(
    config: PublisherConfig, tail: EventTail, table: tuple[str, str], key: str, changes_max: int
) -> Explanation:
    """Ask source, change tables and topic; the lake is asked by ``explain.lake``.

    Columns that the options leave out, mask, cut or hash are not shown, nor those of which the
    login reads masks.

    Args:
        key: as :func:`parse_key` takes it.
        changes_max: how many change rows at most.

    Raises:
        NotThere: the table is not captured, has no key, or the key is none.
        SourceError: the server did not answer.
        KafkaException, TimeoutError, RegistryError: the topics could not be read.
    """
    with OdbcConnection(config.source) as connection:
        instances = instances_of(config, connection, table)
        newest = instances.newest
        columns = newest.key
        if not columns:
            raise NotThere(
                f"table {'.'.join(table)} has no key: ask for a commit instead, by LSN or time, or"
                " for its events (tailrace tail)"
            )
        found = Explanation(newest.table, parse_key(columns, key))
        hidden = hidden_columns(config, connection, instances)
        try:
            found.now = _now(connection, newest, found.key, hidden)
        except SourceError as error:
            if not error.sqlstate.startswith(_DATA_EXCEPTION):
                raise
            types = ", ".join(f"{c.name} {c.type}" for c in newest.columns if c.name in columns)
            raise NotThere(f"{key!r} is no value of the key ({types}): {error}") from error
        for instance in instances:
            found.changes += _changes(connection, instance, found.key, changes_max, hidden)
    unique = {change.position: change for change in found.changes}
    found.changes = sorted(unique.values(), key=lambda c: c.position, reverse=True)[:changes_max]
    if found.changes:
        add_events(found, tail, config.topics)
    return found


def _where(key: Key) -> str:
    return " AND ".join(f"{quote_name(name)} = ?" for name in key)


def _now(
    connection: Connection, instance: CaptureInstance, key: Key, hidden: Set[str]
) -> Mapping[str, Any] | None:
    table = instance.table
    types = {column.name: column.type for column in instance.columns}
    names = [
        str(row[0])
        for row in connection.query(
            "SELECT name FROM sys.columns WHERE object_id = OBJECT_ID(?) ORDER BY column_id",
            quote_table(table),
        )
        if str(row[0]) not in hidden
    ]
    values = (
        server_text(quote_name(name), types[name]) if name in types else quote_name(name)
        for name in names
    )
    rows = connection.query(
        f"SELECT {', '.join(values)} FROM {quote_table(table)} WHERE {_where(key)}", *key.values()
    )
    return dict(zip(names, rows[0], strict=True)) if rows else None


def _changes(
    connection: Connection, instance: CaptureInstance, key: Key, at_most: int, hidden: Set[str]
) -> list[ChangeRow]:
    captured = {column.name.casefold() for column in instance.columns if column.name not in hidden}
    if not {name.casefold() for name in key} <= captured:
        return []  # an older instance, from before the key's columns were what they are
    which = ChangesAsked(_where(key), tuple(key.values()), at_most, is_newest_first=True)
    return change_rows(connection, instance, which, hidden)


def add_events(found: Explanation, tail: EventTail, names: TopicNames) -> None:
    """Find the events of the changes.

    Raises:
        KafkaException, TimeoutError, RegistryError: the topics could not be read.
    """
    try:
        topic = names.data(found.table)
    except ValueError:  # it can have none, so there are no events
        return
    wanted = {change.position for change in found.changes}
    newest = max(wanted).commit_lsn
    for event in tail.events([topic], Moment(lsn=min(wanted).commit_lsn)):
        position = event.position
        if position in wanted:
            found.events[position] = event
            if len(found.events) == len(wanted):
                return
        elif position.commit_lsn > newest:
            return
