"""Capture instances of the database, with their columns and keys."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from tailrace_publisher.change.instance import CapturedColumn, CaptureInstance
from tailrace_publisher.errors import SourceBusy
from tailrace_publisher.options.publisher_config import PublisherConfig
from tailrace_publisher.options.source import ReadMode
from tailrace_publisher.ports import Connection
from tailrace_publisher.source.catalog import capture_catalog as catalog
from tailrace_publisher.source.catalog.added_columns import Uncaptured, uncaptured_columns
from tailrace_publisher.source.catalog.catalog_state import CatalogState, catalog_state
from tailrace_publisher.source.catalog.ddl_history import type_changes
from tailrace_publisher.source.catalog.hidden_data import (
    NOTHING_HIDDEN,
    HiddenData,
    hidden_data,
)
from tailrace_publisher.source.catalog.keys import choose_keys, key_problem
from tailrace_schemas.position.lsn import Lsn
from tailrace_schemas.topics.name_patterns import spelled_as
from tailrace_schemas.topics.topic_names import TableName

_COMMAND_ID = "__$command_id"
_ATTEMPTS_MAX = 5


@dataclass(frozen=True, slots=True)
class Catalog:
    """The metadata of CDC at one moment.

    Attributes:
        state: shows whether the metadata changed.
        instances: all of them, in no order that means anything.
        ddl: LSNs of type changes, in order, by change table's object id.
        uncaptured: columns of the source table that an instance lacks, by change table's object id.
        hidden: what the login does not see of the tables. It is always read again, because a right
            that is granted or revoked changes nothing else.
    """

    state: CatalogState
    instances: tuple[CaptureInstance, ...]
    ddl: Mapping[int, Sequence[Lsn]]
    uncaptured: Mapping[int, Uncaptured] = field(default_factory=dict)
    hidden: HiddenData = NOTHING_HIDDEN


class KnownCatalog:
    """The capture instances that were read, cached until their tables are altered.

    It serves one database with one configuration. A start reads the catalog more than once, and DDL
    on one table of a thousand is no reason to read all of them again.

    Args:
        by_function: whether changes are read through the query functions.
        exempt: security policies that hide nothing from the login.
    """

    def __init__(self, *, by_function: bool = False, exempt: Sequence[str] = ()) -> None:
        self._by_function = by_function
        self.exempt = exempt
        self._known: dict[int, tuple[object, CaptureInstance]] = {}

    @classmethod
    def of(cls, config: PublisherConfig) -> KnownCatalog:
        """Return an empty one for a configuration."""
        by_function = config.source.read_mode is ReadMode.FUNCTION
        return cls(by_function=by_function, exempt=config.snapshot.exempt_policies)

    def source_object_ids(self) -> set[int]:
        """Return the object ids of the known source tables."""
        return {instance.source_object_id for _, instance in self._known.values()}

    def instances(
        self,
        connection: Connection,
        database: str,
        message_keys: Mapping[str, Sequence[str]],
        names: Mapping[int, TableName],
    ) -> list[CaptureInstance]:
        """Return all capture instances; read columns and keys only of new or altered ones.

        Args:
            database: as SQL Server spells it.
            message_keys: schema.table to the columns of its event key.
            names: published names of tables, by object id. A table without one is published under
                its own name. So is a table whose published name another table has by now.
        """
        collation = catalog.database_collation(connection)
        rows = catalog.change_tables(connection)
        published = _published(database, rows, names)
        marks = {
            row.object_id: (replace(row, start_lsn=None), collation, published[row.object_id])
            for row in rows
        }
        altered = [
            row
            for row in rows
            if row.object_id not in self._known
            or self._known[row.object_id][0] != marks[row.object_id]
        ]
        read = _described(connection, published, message_keys, altered, collation)
        # DDL during the reading may be undone by a restore, which brings the old dates back.
        after = catalog.change_tables(connection) if read else []
        unaltered = {replace(row, start_lsn=None) for row in after}
        known = {i: before for i, before in self._known.items() if i in marks}
        for instance in read:
            mark, found = marks[instance.object_id], instance
            if self._by_function:
                found = replace(instance, by_function=True, ordered_by_command_id=False)
            known[instance.object_id] = mark if mark[0] in unaltered else None, found
        self._known = known
        return [replace(known[row.object_id][1], low_watermark=row.start_lsn) for row in rows]


def read_catalog(
    connection: Connection,
    database: str,
    message_keys: Mapping[str, Sequence[str]],
    known: KnownCatalog | None = None,
    names: Mapping[int, TableName] | None = None,
    before: Catalog | None = None,
) -> Catalog:
    """Read all capture instances with their columns and keys.

    The statements do not run at one moment. They are repeated if DDL ran between them, because the
    types of a change table must fit the DDL history.

    Args:
        message_keys: schema.table to its event key.
        names: published names of renamed tables, by object id.
        before: a recent result, returned if nothing changed. None forces a read.

    Raises:
        SourceBusy: DDL ran between the statements again and again.
    """
    known = known or KnownCatalog()
    names = names or {}
    state = catalog_state(connection)
    hidden = hidden_data(connection, known.exempt)
    if before is not None and before.state == state and _are_named(before.instances, names):
        return replace(before, hidden=hidden)
    for _ in range(_ATTEMPTS_MAX):
        ddl = type_changes(connection)
        found = known.instances(connection, database, message_keys, names)
        instances = [replace(i, may_be_masked=hidden.has_masks) for i in found]
        uncaptured = uncaptured_columns(connection, instances)
        state_after = catalog_state(connection)
        if state_after == state:
            return Catalog(state_after, tuple(instances), ddl, uncaptured, hidden)
        state = state_after
    raise SourceBusy(
        f"database {database}: DDL kept changing the captured tables while they were read"
    )


def _are_named(instances: Iterable[CaptureInstance], names: Mapping[int, TableName]) -> bool:
    """Return whether the instances' tables are published under these names."""
    return all(names.get(i.source_object_id, i.table) == i.table for i in instances)


def _published(
    database: str, rows: Sequence[catalog.ChangeTableRow], names: Mapping[int, TableName]
) -> dict[int, TableName]:
    """Return the published name of each instance's table, by change table's object id."""
    own = {row.object_id: TableName(database, row.schema, row.table) for row in rows}
    holders = {own[row.object_id]: row.source_object_id for row in rows}
    published: dict[int, TableName] = {}
    for row in rows:
        name = names.get(row.source_object_id, own[row.object_id])
        is_taken = holders.get(name, row.source_object_id) != row.source_object_id
        published[row.object_id] = own[row.object_id] if is_taken else name
    return published


def _described(
    connection: Connection,
    published: Mapping[int, TableName],
    message_keys: Mapping[str, Sequence[str]],
    rows: Sequence[catalog.ChangeTableRow],
    default_collation: str,
) -> list[CaptureInstance]:
    """Read the columns and keys of some capture instances."""
    if not rows:
        return []
    ids = {row.object_id for row in rows} | {row.source_object_id for row in rows}
    only = ids if len(ids) <= catalog.NARROWED_MAX else None
    captured = catalog.captured_columns(connection, only)
    identifying = catalog.index_columns(connection, only)
    unique = catalog.unique_keys(connection, only)
    columns = catalog.columns_of_captured_tables(connection, only)
    orders = catalog.orders_of_change_tables(connection, only)
    instances: list[CaptureInstance] = []
    for row in rows:
        table = published[row.object_id]
        own = TableName(table.database, row.schema, row.table)
        in_change_table = {column.name: column for column in columns.get(row.object_id, ())}
        in_source = {column.column_id: column for column in columns.get(row.source_object_id, ())}
        described = tuple(
            _describe(column, in_change_table, in_source, default_collation)
            for column in captured.get(row.object_id, ())
            if column.name in in_change_table
        )
        configured = spelled_as(table.in_database, message_keys)
        message_key = () if configured is None else message_keys[configured]
        key, identity = choose_keys(
            described,
            unique.get(row.source_object_id, ()),
            identifying.get(row.object_id, ()),
            message_key,
        )
        instances.append(
            CaptureInstance(
                name=row.instance,
                table=table,
                low_watermark=row.start_lsn,
                create_date=row.create_date,
                object_id=row.object_id,
                source_object_id=row.source_object_id,
                supports_net_changes=row.supports_net_changes,
                ordered_by_command_id=_is_ordered_by_command_id(
                    in_change_table, orders.get(row.object_id, ())
                ),
                columns=described,
                key=key,
                identity=identity,
                key_problem=key_problem(table.in_database, described, message_key),
                renamed_to=own if own != table else None,
                not_captured={
                    number: column.name
                    for number, column in in_source.items()
                    if all(number != captured.column_id for captured in described)
                },
            )
        )
    return instances


def _is_ordered_by_command_id(columns: Collection[str], order: Collection[str]) -> bool:
    """Return whether the command id counts; if no order is visible, whether it exists."""
    return _COMMAND_ID in columns and (_COMMAND_ID in order or not order)


def _describe(
    column: catalog.CapturedColumnRow,
    in_change_table: Mapping[str, catalog.ColumnRow],
    in_source: Mapping[int, catalog.ColumnRow],
    default_collation: str,
) -> CapturedColumn:
    stored = in_change_table[column.name]
    source = in_source.get(column.column_id)
    return CapturedColumn(
        column_id=column.column_id,
        name=column.name,
        ordinal=column.ordinal,
        type=stored.type,
        nullable=source is None or source.nullable,
        is_computed=column.is_computed,
        in_source=source is not None,
        collation=stored.collation if stored.collation != default_collation else None,
    )
