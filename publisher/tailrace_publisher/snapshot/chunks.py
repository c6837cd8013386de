"""Reading a table in keyset chunks, each a short statement of its own: no lock is held."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from tailrace_publisher.change.instance import CaptureInstance
from tailrace_publisher.ports import Connection
from tailrace_publisher.snapshot.key_text import (
    key_text,
    needs_server_text,
    server_text,
    typed_parameter,
)
from tailrace_publisher.source.connection import quote_name
from tailrace_publisher.source.pages import value_expression
from tailrace_schemas.envelope import SchemaColumn, TableSchema


@dataclass(frozen=True, slots=True)
class Chunk:
    """Rows of a table that are consecutive in its key.

    Attributes:
        rows: values in the order of the version's columns.
        resume_key: JSON array of the last key as text; None for a table without a unique key.
        is_last: whether no row is behind it.
    """

    rows: list[Sequence[Any]]
    resume_key: str | None
    is_last: bool


def read_chunk(
    connection: Connection,
    instance: CaptureInstance,
    schema: TableSchema,
    resume_key: str | None,
    rows_max: int,
) -> Chunk:
    """Read the rows behind a key, or the whole table when it has no unique key.

    Args:
        connection: where to read.
        instance: capture instance of the table.
        schema: version whose columns are wanted.
        resume_key: last key already read, None at the start.
        rows_max: rows at most.

    Raises:
        SourceError: the server did not answer or refused.
    """
    if not instance.key_is_unique:
        rows = connection.query(whole_table_statement(instance, schema))
        return Chunk(rows, None, is_last=True)
    last: list[str] = [] if resume_key is None else json.loads(resume_key)
    parameters: list[Any] = [rows_max]
    for place in range(len(last)):
        parameters += last[: place + 1]
    rows = connection.query(chunk_statement(instance, schema, is_first=not last), *parameters)
    if not rows:
        return Chunk([], resume_key, is_last=True)
    return Chunk(
        [row[: len(schema.columns)] for row in rows]
        if len(rows[0]) > len(schema.columns)
        else rows,
        json.dumps(_last_key(instance, schema, rows[-1])),
        is_last=len(rows) < rows_max,
    )


def whole_table_statement(instance: CaptureInstance, schema: TableSchema) -> str:
    """All rows of a table."""
    return f"SELECT {', '.join(_expressions(instance, schema))} FROM {_source_table(instance)}"


def chunk_statement(instance: CaptureInstance, schema: TableSchema, *, is_first: bool) -> str:
    """The next rows in key order, compared on the server."""
    keys = instance.key_columns
    columns = _expressions(instance, schema) + [
        server_text(column) for column in keys if needs_server_text(column)
    ]
    where = ""
    if not is_first:
        alternatives: list[str] = []
        for place, column in enumerate(keys):
            equal = [f"{quote_name(c.name)} = {typed_parameter(c)}" for c in keys[:place]]
            greater = f"{quote_name(column.name)} > {typed_parameter(column)}"
            alternatives.append("(" + " AND ".join([*equal, greater]) + ")")
        where = " WHERE " + " OR ".join(alternatives)
    order = ", ".join(quote_name(column.name) for column in keys)
    return (
        f"SELECT TOP (?) {', '.join(columns)} FROM {_source_table(instance)}{where}"
        f" ORDER BY {order}"
    )


def _source_table(instance: CaptureInstance) -> str:
    return f"{quote_name(instance.table.schema)}.{quote_name(instance.table.table)}"


def _expressions(instance: CaptureInstance, schema: TableSchema) -> list[str]:
    """Values as the change table would hold them: computed and dropped columns are NULL there."""
    captured = {column.name: column for column in instance.columns}
    return [
        value_expression(column) if _has_values(captured, column) else "NULL"
        for column in schema.columns
    ]


def _has_values(captured: dict[str, Any], column: SchemaColumn) -> bool:
    found = captured.get(column.name)
    return found is not None and found.in_source and not found.is_computed


def _last_key(instance: CaptureInstance, schema: TableSchema, row: Sequence[Any]) -> list[str]:
    places = {column.name: place for place, column in enumerate(schema.columns)}
    texts: list[str] = []
    written = len(schema.columns)
    for column in instance.key_columns:
        if needs_server_text(column):
            texts.append(row[written])
            written += 1
        else:
            texts.append(key_text(column, row[places[column.name]]))
    return texts
