"""Records of data topics as typed changes."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from tailrace.reading.record_decoder import RecordDecoder
from tailrace.subscribe.errors import NotAnEvent, RowTypeMismatch, UnknownColumn
from tailrace.subscribe.events import UNAVAILABLE, Change
from tailrace.subscribe.groups import Where
from tailrace_schemas.events.envelope import TableSchema, position_of, table_schema_of
from tailrace_schemas.events.flat import as_envelope
from tailrace_schemas.topics.escaped_names import avro_name
from tailrace_schemas.topics.topic_names import TableName
from tailrace_service.registry.client import SchemaRegistry

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
Shape = Callable[[dict[str, Any]], Any]


def utc(ms: int) -> datetime:
    """The time of milliseconds since 1970."""
    return _EPOCH + timedelta(milliseconds=ms)


@dataclass(frozen=True, slots=True)
class Decoded:
    """A change, with the schema that it was written with; None for plain JSON."""

    change: Change
    schema: TableSchema | None


@dataclass(frozen=True, slots=True)
class _Version:
    """What a schema id says of the events.

    Attributes:
        names: Avro field to column name, where they differ.
        key: names of the key's columns.
    """

    schema: TableSchema | None
    names: Mapping[str, str] = field(default_factory=dict)
    key: tuple[str, ...] = ()

    @classmethod
    def of(cls, envelope: dict[str, Any]) -> _Version:
        schema = table_schema_of(envelope)
        fields = ((avro_name(column.name), column.name) for column in schema.columns)
        names = {field: name for field, name in fields if field != name}
        return cls(schema, names, tuple(column.name for column in schema.key_columns))


class EventDecoder:
    """Decodes events, whatever their form; remembers schemas.

    Args:
        table_of: the table of a topic.
        columns: per table, the names of the columns to keep; all of a table that is not named.
        types: per table, the dataclass of its rows; dicts for a table that is not named.
    """

    def __init__(
        self,
        registry: SchemaRegistry,
        table_of: Callable[[str], TableName | None],
        columns: Mapping[TableName, Sequence[str]],
        types: Mapping[TableName, type[Any]],
    ) -> None:
        self._registry = registry
        self._records = RecordDecoder(registry)
        self._table_of = table_of
        self._columns = columns
        self._types = types
        self._versions: dict[int, _Version] = {0: _Version(None)}
        self._shapes: dict[tuple[str, int], Shape] = {}

    def learn(self, schema_id: int) -> None:
        """Look up a schema.

        Raises:
            RegistryError: the registry does not answer, or does not know it.
        """
        if schema_id not in self._versions:
            self._versions[schema_id] = _Version.of(self._registry.schema_by_id(schema_id))

    def __call__(self, where: Where, offset: int, value: bytes) -> tuple[bytes, Decoded]:
        """Packed position and change of a record.

        Raises:
            NotAnEvent: it has another form.
            UnknownColumn, RowTypeMismatch: what was asked for does not fit the table.
            RegistryError: its schema is not available.
        """
        try:
            schema_id, record = self._records.decode(value)
            self.learn(schema_id)
            position = position_of(record)
            event = as_envelope(record)
            source = event["source"]
            op, commit_time = event["op"], utc(source["ts_ms"])
            images = event["before"], event["after"]
        except (ValueError, EOFError, TypeError, KeyError, IndexError) as error:
            raise NotAnEvent.at(where, offset, error) from error
        version = self._versions[schema_id]
        table = self._table_of(where[0]) or TableName("", "", where[0])
        hidden = source.get("unavailable") or ()
        before, after = (_named(version, image, hidden) for image in images)
        row = after if before is None else before
        changed = (version.names.get(name, name) for name in source.get("changed") or ())
        shape = self._shapes.get((where[0], schema_id))
        if shape is None:
            shape = self._shapes[where[0], schema_id] = self._shaped(table, version)
        change = Change(
            table,
            op,
            {name: row.get(name) for name in version.key} if version.key and row else None,
            None if before is None else shape(before),
            None if after is None else shape(after),
            position,
            commit_time,
            frozenset(changed),
            *where,
            offset,
        )
        return position.to_bytes(), Decoded(change, version.schema)

    def _shaped(self, table: TableName, version: _Version) -> Shape:
        """How rows of a table are shaped."""
        there = None if version.schema is None else [c.name for c in version.schema.columns]
        wanted = self._columns.get(table)
        if wanted is not None and there is not None:
            missing = [name for name in wanted if name not in there]
            if missing:
                raise UnknownColumn(
                    f"table {table.in_database} has no column {missing[0]}: there are"
                    f" {', '.join(there)}. Fix: name one of them, spelled as in the source"
                )
        kind = self._types.get(table)
        if kind is not None:
            return _typed(table, kind)
        if wanted is None:
            return lambda row: row
        names = list(wanted)
        return lambda row: {name: row[name] for name in names if name in row}


def _named(
    version: _Version, image: Mapping[str, Any] | None, hidden: Sequence[str]
) -> dict[str, Any] | None:
    if image is None:
        return None
    row = dict(image)
    for name in hidden:
        row[name] = UNAVAILABLE
    if version.names:
        row = {version.names.get(name, name): value for name, value in row.items()}
    return row


def _typed(table: TableName, kind: type[Any]) -> Shape:
    """Rows as a dataclass: its fields are columns, or name theirs in ``metadata["column"]``."""
    fields = [
        (
            part.name,
            part.metadata.get("column", part.name),
            part.default is dataclasses.MISSING and part.default_factory is dataclasses.MISSING,
        )
        for part in dataclasses.fields(kind)
        if part.init
    ]

    def rows(row: dict[str, Any]) -> Any:
        for name, column, is_required in fields:
            if is_required and column not in row:
                raise RowTypeMismatch(
                    f"{kind.__name__}.{name} needs column {column}, which table"
                    f" {table.in_database} does not have here: there are {', '.join(row)}. Fix:"
                    f" give the field a default, or name its column:"
                    " field(metadata={'column': ...})"
                )
        return kind(**{name: row[column] for name, column, _ in fields if column in row})

    return rows
