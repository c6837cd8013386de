"""Schema versions of a capture instance, and which is in force at an LSN (pure).

A version is known by (capture instance, schema_lsn). It begins at the instance's low watermark, at
a DDL statement that changed the type of a captured column (``required_column_update`` in
``cdc.ddl_history``; added and dropped columns leave the change table alone), or at our own position
when the configuration gave the columns another key or form, left some out or masked them. Versions
already registered are taken from the registry, so a restart finds the ones that rows were encoded
with before. A version that was never registered is described by the types that the change table has
now, because those are the types that its values arrive in.
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
    """The event columns that a capture instance gives now.

    Args:
        instance: the capture instance.
        lossless: names of time(7) and datetime2(7) columns to be carried as text.
        rules: which columns are published, and what is made of their values.

    Raises:
        ColumnsRefused: the options of columns cannot be meant for it.
    """
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
    """The registered versions that are an instance's, and not of another one that had its name.

    An instance that is disabled and enabled again has its name again, and may have other columns.

    Args:
        instance: the capture instance.
        registered: versions of its table.
        covers_from: LSN from which on it holds the table's changes.
        first_lsn: lowest LSN that is still to be published. Where the instance begins behind it,
            nothing of it was published, and what is older than its beginning is not its own.
    """
    return [
        version
        for version in registered
        if version.capture_instance == instance.name
        and _is_of(instance, version)
        and (covers_from <= first_lsn or version.schema_lsn >= covers_from)
    ]


def _is_of(instance: CaptureInstance, version: TableSchema) -> bool:
    """Whether a version has the columns of an instance, but for those that options left out."""
    captured = {column.column_id: column.ordinal for column in instance.columns}
    if any(column.ordinal for column in version.columns):
        return all(captured.get(c.column_id) == c.ordinal for c in version.columns)
    return {column.column_id for column in version.columns} == captured.keys()


def _rules(columns: Iterable[SchemaColumn]) -> dict[int, object]:
    """What the options made of each column."""
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
    """All versions of an instance, oldest first; never empty.

    Args:
        instance: the capture instance; recognised by the capture process.
        columns: its event columns now.
        type_changes: LSNs of DDL statements that changed a captured column's type.
        registered: versions of the instance that the registry holds.
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
    # What is still to be published is so by the options of now, whatever was registered for it.
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
    """Columns as they come back from a registered schema.

    There, nullability says whether the Avro field is a union, which every field is but non-null
    key columns.
    """
    return tuple(
        # A thousand tables have ten thousand columns, and most of them are so already.
        column
        if column.nullable != column.is_required
        else replace(column, nullable=not column.is_required)
        for column in columns
    )


def version_at(versions: Sequence[TableSchema], lsn: Lsn) -> TableSchema:
    """The version in force for a commit: the newest that begins at or before it."""
    begun = [version for version in versions if version.schema_lsn <= lsn]
    return begun[-1] if begun else versions[0]
