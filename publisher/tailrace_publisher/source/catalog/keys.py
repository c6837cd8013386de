"""The event key of a table, and the columns that identify its rows."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from tailrace_publisher.change.instance import CapturedColumn


def choose_keys(
    columns: Sequence[CapturedColumn],
    primary_key: Sequence[int],
    identifying: Sequence[str],
    message_key: Sequence[str],
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Choose the event key of a table, and the columns that distinguish its rows.

    The event key is the configured message key, else the primary key, else the columns in
    ``cdc.index_columns``. The latter are the unique index of @index_name.

    The identity does not depend on the configuration. It is the primary key, else that index if
    none of its columns may be NULL. Its values must be in the change table, where those of computed
    columns are NULL. They must be comparable with a bound parameter, which sql_variant is not.

    Args:
        primary_key: column ids of the source table's primary key.
        identifying: column names from ``cdc.index_columns``.
        message_key: names from the configuration, which preflight checks.

    Returns:
        Both as names in order; empty if there is none.
    """
    by_id = {column.column_id: column for column in columns}
    by_name = {column.name: column for column in columns}
    unique_sets: list[tuple[CapturedColumn, ...]] = []
    if primary_key and all(column_id in by_id for column_id in primary_key):
        unique_sets.append(tuple(by_id[column_id] for column_id in primary_key))
    if identifying and all(name in by_name for name in identifying):
        unique_sets.append(tuple(by_name[name] for name in identifying))
    named = [spelled_as(name, by_name) for name in message_key]
    if named and None not in named:
        key = tuple(name for name in named if name is not None)
    else:
        key = _names(unique_sets[0]) if unique_sets else ()
    return key, next((_names(found) for found in unique_sets if _distinguishes_rows(found)), ())


def _distinguishes_rows(columns: Sequence[CapturedColumn]) -> bool:
    return all(
        column.in_source
        and not column.nullable
        and not column.is_computed
        and column.type.name != "sql_variant"
        for column in columns
    )


def _names(columns: Sequence[CapturedColumn]) -> tuple[str, ...]:
    return tuple(column.name for column in columns)


def spelled_as(wanted: str, names: Iterable[str]) -> str | None:
    """Find a name: the one that is spelled so, else the first that differs only in case.

    If the database distinguishes Id from ID, each is found by its own spelling.

    Returns:
        None if there is none.
    """
    found = [name for name in names if name.casefold() == wanted.casefold()]
    return wanted if wanted in found else next(iter(found), None)
