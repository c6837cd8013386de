"""Schema versions of a capture instance, and which is in force at an LSN (pure).

A version is identified by (capture instance, schema_lsn). It starts in one of three places:

- at the instance's low watermark
- at DDL that changed the type of a captured column: ``required_column_update`` in
  ``cdc.ddl_history``. Added and dropped columns leave the change table unchanged.
- at the publisher's position, if the configuration gave columns another key or form, left some out
  or masked them

Registered versions come from the registry, so a restart finds those with which rows were encoded
before. A version that was never registered is described by the present types of the change table,
because its values arrive in those types.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from tailrace_publisher.change.column_rules import ColumnRules
from tailrace_publisher.change.instance import CaptureInstance
from tailrace_publisher.errors import ColumnsRefused
from tailrace_schemas.events.envelope import SchemaColumn, TableSchema
from tailrace_schemas.position.lsn import Lsn


def current_columns(
    instance: CaptureInstance, lossless: Iterable[str] = (), rules: ColumnRules | None = None
) -> tuple[SchemaColumn, ...]:
    """Return the event columns that a capture instance yields now.

    Args:
        lossless: names of time(7) and datetime2(7) columns to publish as text.
        rules: which columns are published, and how their values are transformed.

    Raises:
        ColumnsRefused: the options of columns do not fit the table.
    """
    if instance.key_problem is not None:
        raise ColumnsRefused([instance.key_problem])
    columns = _as_they_are(instance, lossless)
    if rules is None or rules.options.is_everything:
        return columns
    problems = rules.problems(instance)
    if problems:
        raise ColumnsRefused(problems)
    is_whole = not rules.leaves_out(instance)
    published: list[SchemaColumn] = []
    for captured, column in zip(instance.columns, columns, strict=True):
        if not rules.publishes(instance, captured):
            continue
        made = rules.transform_of(instance, captured)
        if made is not None:
            values = made.published_type(column.type)
            column = replace(column, type=values, lossless=False, transform=made)  # noqa: PLW2901 - as published
        published.append(column if is_whole else replace(column, ordinal=captured.ordinal))
    return tuple(published)


def _as_they_are(instance: CaptureInstance, lossless: Iterable[str]) -> tuple[SchemaColumn, ...]:
    exact = {name.casefold() for name in lossless}
    ordinals = {name: place for place, name in enumerate(instance.key, 1)}
    return tuple(
        SchemaColumn(
            column_id=column.column_id,
            name=column.name,
            type=column.type,
            nullable=column.nullable,
            key_ordinal=ordinals.get(column.name, 0),
            lossless=column.name.casefold() in exact
            and column.type.name in {"time", "datetime2"}
            and column.type.scale == 7,
        )
        for column in instance.columns
    )


def versions_of(
    instance: CaptureInstance, registered: Iterable[TableSchema], covers_from: Lsn, first_lsn: Lsn
) -> list[TableSchema]:
    """Return the registered versions that belong to an instance, not to a former one of its name.

    An instance that is disabled and enabled again has the same name, and may have other columns.

    Args:
        registered: versions of its table.
        covers_from: LSN from which it holds the table's changes.
        first_lsn: lowest LSN that is still to be published. If the instance starts after it,
            nothing of the instance was published, and older versions are not its own.
    """
    return [
        version
        for version in registered
        if version.capture_instance == instance.name
        and _is_of(instance, version)
        and (covers_from <= first_lsn or version.schema_lsn >= covers_from)
    ]


def _is_of(instance: CaptureInstance, version: TableSchema) -> bool:
    """Return whether a version has an instance's columns, except those that options left out."""
    captured = {column.column_id: column.ordinal for column in instance.columns}
    if any(column.ordinal for column in version.columns):
        return all(captured.get(c.column_id) == c.ordinal for c in version.columns)
    return {column.column_id for column in version.columns} == captured.keys()


def _rules(columns: Iterable[SchemaColumn]) -> dict[int, object]:
    """Return the transform rule of each column."""
    return {
        column.column_id: None if column.transform is None else column.transform.rule
        for column in columns
    }


def timeline(
    instance: CaptureInstance,
    columns: tuple[SchemaColumn, ...],
    type_changes: Sequence[Lsn],
    registered: Sequence[TableSchema],
    first_lsn: Lsn,
) -> tuple[TableSchema, ...]:
    """Return all versions of an instance, oldest first; never empty.

    Args:
        instance: recognised by the capture process.
        columns: its present event columns.
        type_changes: LSNs of DDL that changed a captured column's type.
        first_lsn: lowest LSN of rows that are still to be published.
    """
    start = instance.low_watermark or first_lsn
    versions = {version.schema_lsn: version for version in registered}
    newest = TableSchema(instance.table, instance.name, start, columns)
    if not any(lsn <= first_lsn for lsn in versions):
        versions[min(start, first_lsn)] = replace(newest, schema_lsn=min(start, first_lsn))
    for lsn in type_changes:
        if lsn not in versions and lsn > min(versions):
            versions[lsn] = replace(newest, schema_lsn=lsn)
    # Rows still to be published follow the present options, whatever version was registered.
    in_force = max(lsn for lsn in versions if lsn <= first_lsn)
    other = {lsn for lsn in versions if _rules(versions[lsn].columns) != _rules(columns)}
    for lsn in (max(lsn, first_lsn) for lsn in other if lsn >= in_force):
        versions[lsn] = replace(newest, schema_lsn=lsn)
    last = versions[max(versions)]
    if last.columns != registered_form(columns) and last.columns != columns:
        begin = max(first_lsn, start)
        versions[begin] = replace(newest, schema_lsn=begin)
    return tuple(versions[lsn] for lsn in sorted(versions))


def registered_form(columns: tuple[SchemaColumn, ...]) -> tuple[SchemaColumn, ...]:
    """Return columns as a registered schema returns them.

    There, nullability means that the Avro field is a union. Every field is one, except non-null key
    columns.
    """
    return tuple(
        # Most of ten thousand columns (a thousand tables) need no copy.
        column
        if column.nullable != column.is_required
        else replace(column, nullable=not column.is_required)
        for column in columns
    )


def version_at(versions: Sequence[TableSchema], lsn: Lsn) -> TableSchema:
    """Return the version in force for a commit: the newest that starts at or before it."""
    in_force = [version for version in versions if version.schema_lsn <= lsn]
    return in_force[-1] if in_force else versions[0]
