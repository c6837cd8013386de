"""What a first start publishes, and what it leaves out: from the source alone, changing nothing.

The publisher's own start check finds the problems, so a plan without problems is one that starts.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from tailrace_publisher.change.instance import CaptureInstance
from tailrace_publisher.daemon.checks.preflight import check_source
from tailrace_publisher.daemon.checks.table_problems import refuses_first_start
from tailrace_publisher.deliver.topics import data_spec
from tailrace_publisher.options.publisher_config import PublisherConfig
from tailrace_publisher.options.tables import SchemaChange
from tailrace_publisher.ports import Connection
from tailrace_publisher.source.catalog import capture_catalog as catalog
from tailrace_publisher.source.catalog.hidden_data import hidden_instances
from tailrace_publisher.source.catalog.instances import Catalog, KnownCatalog
from tailrace_publisher.source.catalog.next_instance import rotation_statements
from tailrace_publisher.source.catalog.partitions import captured_partitions
from tailrace_publisher.source.catalog.table_instances import TableInstances, by_table
from tailrace_schemas.topics.topic_names import TableName
from tailrace_service.options.sections import matches

ROWS_PER_S: Final = 20_000
BYTES_PER_S: Final = 20_000_000
"""Assumed for all tables together: a third of what docs/sizing.md measured on a local server."""

# LOB units belong to the partition, the others to its heap or B-tree.
# https://learn.microsoft.com/sql/relational-databases/system-catalog-views/sys-allocation-units-transact-sql
_BYTES: Final = (
    "SELECT p.object_id, SUM(a.used_pages) * 8192 FROM sys.partitions AS p"
    " JOIN sys.allocation_units AS a"
    " ON a.container_id = CASE WHEN a.type = 2 THEN p.partition_id ELSE p.hobt_id END"
    " WHERE p.index_id IN (0, 1)"
    " AND p.object_id IN (SELECT source_object_id FROM cdc.change_tables) GROUP BY p.object_id"
)


@dataclass(frozen=True, slots=True)
class PlannedTable:
    """A table that is published.

    Attributes:
        key: columns of the event key; empty if there is none.
        partitions: of the topic, if the publisher creates it.
        rows: the server's estimate; None if the login may not see it.
        bytes: of the heap or clustered index, large values included; None likewise.
        snapshot_s: at the assumed rates; None if the size is unknown.
        notes: what follows from its key, size or options.
    """

    table: str
    key: Sequence[str]
    capture_instances: Sequence[str]
    topic: str
    partitions: int
    rows: int | None
    bytes: int | None
    snapshot_s: float | None
    notes: Sequence[str]


@dataclass(frozen=True, slots=True)
class PublishPlan:
    """What a first start does.

    Attributes:
        left_out: the reason by table.
        problems: why a first start leaves tables out, or is refused.
        is_refused: whether it is refused.
    """

    tables: Sequence[PlannedTable]
    left_out: Mapping[str, str]
    problems: Sequence[str]
    is_refused: bool = False

    @property
    def snapshot_s(self) -> float:
        """Seconds of all snapshots whose size is known: they share one publisher's rate."""
        return sum(table.snapshot_s or 0 for table in self.tables)


def plan_publish(config: PublisherConfig, connection: Connection) -> PublishPlan:
    """Plan a first start.

    Raises:
        PreflightError: nothing can be published; names the fix.
        SourceError: the server did not answer.
    """
    known = KnownCatalog.of(config)
    problems, captured = check_source(config, connection, known)
    published = by_table(i for i in captured.instances if config.tables.selects(i.table))
    sizes = _Sizes.read(connection)
    tables = [
        replace(
            planned,
            notes=[
                *planned.notes,
                *_of_rotation(config, connection, captured, name),
            ],
        )
        for name in sorted(published, key=str)
        for planned in [_planned(config, name, published[name], sizes)]
    ]
    left_out = _left_out(config, connection)
    return PublishPlan(
        tables,
        left_out,
        [problem.text for problem in problems],
        is_refused=refuses_first_start(problems, set(published)),
    )


@dataclass(frozen=True, slots=True)
class _Sizes:
    """Rows and bytes by source table's object id, as far as the login sees its tables."""

    rows: dict[int, int]
    bytes: dict[int, int]

    @classmethod
    def read(cls, connection: Connection) -> _Sizes:
        partitions = captured_partitions(connection).items()
        rows = {number: sum(n or 0 for n in found.rows.values()) for number, found in partitions}
        return cls(rows, {number: int(count) for number, count in connection.query(_BYTES)})


def _planned(
    config: PublisherConfig, name: TableName, instances: TableInstances, sizes: _Sizes
) -> PlannedTable:
    newest = instances.newest
    rows = sizes.rows.get(newest.source_object_id)
    size = sizes.bytes.get(newest.source_object_id)
    try:
        topic = config.topics.data(name)
    except ValueError:
        topic = ""  # too long a name, which is one of the problems
    is_read = config.snapshot.reads_first
    return PlannedTable(
        table=_full(name),
        key=newest.key,
        capture_instances=[instance.name for instance in instances],
        topic=topic,
        partitions=data_spec(name, topic, config.kafka).partitions,
        rows=rows,
        bytes=size,
        snapshot_s=snapshot_seconds(rows, size) if is_read else 0.0,
        notes=[*_of_key(newest), *(_of_snapshot(config, name, newest, size) if is_read else ())],
    )


def snapshot_seconds(rows: int | None, size: int | None) -> float | None:
    """Return the time of a snapshot at the assumed rates; None if its size is unknown."""
    if rows is None or size is None:
        return None
    return max(rows / ROWS_PER_S, size / BYTES_PER_S)


def _of_key(newest: CaptureInstance) -> list[str]:
    if newest.key:
        return []
    return [
        "No key: its events have none, and its lake table is a list of changes. Fix: set"
        f" publisher.message_keys for {_full(newest.table)}, or add a primary key"
    ]


def _of_snapshot(
    config: PublisherConfig, name: TableName, newest: CaptureInstance, size: int | None
) -> list[str]:
    notes = []
    if config.snapshot.where_of(name) is not None:
        notes.append("snapshot.where selects some rows: rows, bytes and time are upper bounds")
    if not newest.identity and (size or 0) > config.snapshot.memory_bytes:
        notes.append(
            "Its snapshot is read at once, because no primary key or unique index over columns"
            " without NULL divides it: it may exceed snapshot.memory_mb, which stops the table"
        )
    return notes


def _of_rotation(
    config: PublisherConfig, connection: Connection, captured: Catalog, name: TableName
) -> list[str]:
    """Return what rotation runs at the next change of a table's columns."""
    if config.tables.schema_change_of(name) is not SchemaChange.ROTATE:
        return []
    newest = by_table(captured.instances)[name].newest
    statements = rotation_statements(connection, newest, captured)
    return [f"After a change of its columns, schema_change: rotate runs: {'; '.join(statements)}"]


def _left_out(config: PublisherConfig, connection: Connection) -> dict[str, str]:
    """Return the tables that are not published, each with the reason."""
    reasons: dict[str, str] = {}
    for schema, table, is_captured in catalog.user_tables(connection):
        name = TableName(config.source.database, schema, table)
        if matches(config.tables.exclude, _full(name)):
            reasons[_full(name)] = "tables.exclude matches it"
        elif not config.tables.selects(name):
            reasons[_full(name)] = "tables.include does not match it"
        elif not is_captured:
            reasons[_full(name)] = "not captured. Fix: tailrace enable"
    for instance in hidden_instances(connection):
        reasons[f"capture instance {instance}"] = (
            f"login {config.source.account} may not see its table. Fix: tailrace grants"
        )
    return dict(sorted(reasons.items()))


def _full(name: TableName) -> str:
    return f"{name.schema}.{name.table}"
