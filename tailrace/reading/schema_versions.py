"""``tailrace schema``: versions of a table's schema, from where on each is in force, and why."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from tailrace_publisher.errors import SourceError
from tailrace_publisher.options.source import SourceConfig
from tailrace_publisher.source.connection.connection import OdbcConnection
from tailrace_schemas.events.envelope import SchemaColumn, TableSchema, table_schema_of
from tailrace_schemas.events.forms import EventShape
from tailrace_schemas.position.lsn import Lsn
from tailrace_schemas.topics.topic_names import TableName, value_subject
from tailrace_service.registry.client import SchemaRegistry


@dataclass(frozen=True, slots=True)
class Version:
    """A registered version.

    Attributes:
        changes: against the version before, one sentence each. The first version has its columns,
            and the form of its events if that is not the envelope in Avro.
        ddl: the statements that led to it, as far as the source still holds them. For a newer
            capture instance: all since the version before.
    """

    number: int
    schema_id: int
    schema: TableSchema
    changes: tuple[str, ...]
    ddl: str | None = None


def versions_of(
    registry: SchemaRegistry, topic: str, ddl: Mapping[Lsn, str] | None = None
) -> list[Version]:
    """The versions under a topic's value subject, oldest first.

    Args:
        ddl: statements by LSN, as :func:`ddl_of` gives them.

    Raises:
        RegistryError: the registry does not answer, or refuses.
        ValueError: the subject belongs to somebody else.
    """
    found: list[Version] = []
    shape = EventShape()
    for registered in registry.versions(value_subject(topic)):
        schema = table_schema_of(registered.schema)
        before = found[-1].schema.columns if found else None
        shape_before, shape = shape, EventShape.of(registered.schema)
        changes = [] if shape == shape_before else [shape.differences(shape_before)]
        found.append(
            Version(
                registered.version,
                registered.schema_id,
                schema,
                (*changes, *changes_between(before, schema.columns)),
                _led_to(schema, found[-1].schema if found else None, ddl or {}),
            )
        )
    return found


def _led_to(schema: TableSchema, before: TableSchema | None, ddl: Mapping[Lsn, str]) -> str | None:
    if before is None or schema.schema_lsn in ddl:
        return ddl.get(schema.schema_lsn)
    between = [lsn for lsn in ddl if before.schema_lsn < lsn < schema.schema_lsn]
    return "; ".join(ddl[lsn] for lsn in sorted(between)) or None


def changes_between(
    before: Sequence[SchemaColumn] | None, after: Sequence[SchemaColumn]
) -> Iterator[str]:
    """What differs between the columns of two versions; of the first one, its columns."""
    if before is None:
        yield from (f"{column.name} {_type(column)}" for column in after)
        return
    old = {column.column_id: column for column in before}
    for column in after:
        known = old.pop(column.column_id, None)
        if known is None:
            yield f"added {column.name} {_type(column)}"
            continue
        if known.name != column.name:
            yield f"renamed {known.name} to {column.name}"
        if _type(known) != _type(column):
            yield f"{column.name}: {_type(known)} became {_type(column)}"
    yield from (f"dropped {column.name}" for column in old.values())


def _type(column: SchemaColumn) -> str:
    key = f" (key {column.key_ordinal})" if column.key_ordinal else ""
    made = f", {column.transform}" if column.transform is not None else ""
    return f"{column.type}{'' if column.nullable else ' NOT NULL'}{key}{made}"


def ddl_of(source: SourceConfig, table: TableName) -> dict[Lsn, str]:
    """DDL statements of a captured table by their LSN, as far as the source still keeps them.

    https://learn.microsoft.com/sql/relational-databases/system-tables/cdc-ddl-history-transact-sql

    Raises:
        SourceError: the server does not answer, or refuses.
    """
    with OdbcConnection(source) as connection:
        try:
            rows = connection.query(
                "SELECT h.ddl_lsn, h.ddl_command FROM cdc.ddl_history AS h JOIN sys.tables AS t ON"
                " t.object_id = h.source_object_id JOIN sys.schemas AS s ON s.schema_id ="
                " t.schema_id WHERE s.name = ? AND t.name = ?",
                table.schema,
                table.table,
            )
        except SourceError as error:
            if error.retryable:
                raise
            return {}
    return {Lsn.from_bytes(row[0]): str(row[1]).strip() for row in rows}
