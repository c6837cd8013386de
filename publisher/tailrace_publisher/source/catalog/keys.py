"""The event key of a table, and the columns that identify its rows."""

from __future__ import annotations

from collections.abc import Sequence

from tailrace_publisher.change.instance import CapturedColumn
from tailrace_publisher.source.catalog.capture_catalog import UniqueKey
from tailrace_schemas.topics.name_patterns import spelled_as


def choose_keys(
    columns: Sequence[CapturedColumn],
    unique: Sequence[UniqueKey],
    identifying: Sequence[str],
    message_key: Sequence[str],
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Choose the event key of a table, and the columns that distinguish its rows.

    The event key is the configured message key, else the primary key, else the columns in
    ``cdc.index_columns``. The latter are of @index_name's index. They count only if a unique key of
    the table is among them. Change tables must hold the key's values: computed columns are NULL.

    The identity does not depend on the configuration. It is the first of these keys none of whose
    columns may be NULL, and which are comparable with a bound parameter: sql_variant is not.

    See: sys.sp_cdc_enable_table (@index_name), Work with change data (computed columns).

    Args:
        unique: keys of the source table, the primary key first.
        identifying: column names from ``cdc.index_columns``.
        message_key: names from the configuration, which preflight checks.

    Returns:
        Both as names in order; empty if there is none.
    """
    by_id = {column.column_id: column for column in columns}
    by_name = {column.name: column for column in columns}
    chosen = [key.column_ids for key in unique if key.is_primary]
    named = [by_name[name].column_id for name in identifying if name in by_name]
    is_whole = len(named) == len(identifying)
    if is_whole and any(set(key.column_ids) <= set(named) for key in unique):
        chosen.append(tuple(named))
    held = [
        tuple(by_id[column_id] for column_id in key)
        for key in chosen
        if all(column_id in by_id and not by_id[column_id].is_computed for column_id in key)
    ]
    configured = [spelled_as(name, by_name) for name in message_key]
    if configured and None not in configured:
        key = tuple(name for name in configured if name is not None)
    else:
        key = _names(held[0]) if held else ()
    return key, next((_names(found) for found in held if _distinguishes_rows(found)), ())


def key_problem(
    table: str, columns: Sequence[CapturedColumn], message_key: Sequence[str]
) -> str | None:
    """Return why the configured message key cannot be a table's event key; None if it can.

    Args:
        message_key: names from the configuration.
    """
    by_name = {column.name: column for column in columns}
    for wanted in message_key:
        name = spelled_as(wanted, by_name)
        if name is None:
            return (
                f"message_keys.{table}: column {wanted} is not captured: check its spelling or"
                " @captured_column_list"
            )
        if by_name[name].is_computed:
            return (
                f"message_keys.{table}: column {name} is computed, and change tables hold NULL"
                " instead of its values. Fix: name columns that the table stores"
            )
    return None


def _distinguishes_rows(columns: Sequence[CapturedColumn]) -> bool:
    return all(
        column.in_source and not column.nullable and column.type.name != "sql_variant"
        for column in columns
    )


def _names(columns: Sequence[CapturedColumn]) -> tuple[str, ...]:
    return tuple(column.name for column in columns)
