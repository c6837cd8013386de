"""ALTER TABLE ADD and DROP CONSTRAINT. See ddl.py for the rules."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TypeVar

from tailrace_emulator import messages
from tailrace_emulator.storage.database import Database
from tailrace_emulator.storage.ddl_scope import DdlTarget, ddl_scope, replace_table
from tailrace_emulator.storage.foreign_keys import refuse_orphans
from tailrace_emulator.storage.indexes import create_index, drop_index
from tailrace_emulator.storage.model import Check, ForeignKey, Index, Table

Switched = TypeVar("Switched", ForeignKey, Check)


def add_constraint(
    target: DdlTarget,
    database: Database,
    table: Table,
    constraint: Index | ForeignKey | Check,
    *,
    command: str = "",
) -> Table:
    """Add a PRIMARY KEY or UNIQUE (an Index), FOREIGN KEY or CHECK constraint.

    CHECK is not verified here against existing rows: its expression is tsql's.

    Raises:
        SqlError: as create_index; 547 when a row violates the foreign key; 2714 name taken.
    """
    if isinstance(constraint, Index):
        return create_index(target, database, table, constraint, command=command)
    with ddl_scope(target, database, table) as connection:
        if constraint.name.casefold() in _constraint_names(database, table.schema):
            raise messages.error(2714, constraint.name, state=5)
        if isinstance(constraint, Check):
            changed = replace(table, checks=(*table.checks, constraint))
        else:
            if constraint.referenced == 0:
                constraint = replace(constraint, referenced=table.object_id)
            if not constraint.is_not_trusted:
                refuse_orphans(connection, database, table, constraint)
            changed = replace(table, foreign_keys=(*table.foreign_keys, constraint))
        return replace_table(target, connection, database, changed, "other", command)


def switch_constraints(
    target: DdlTarget,
    database: Database,
    table: Table,
    names: Sequence[str],
    *,
    disable: bool,
    trusted: bool,
    command: str = "",
) -> Table:
    """CHECK or NOCHECK CONSTRAINT for foreign keys and checks; returns the new Table.

    Args:
        disable: whether NOCHECK is given.
        trusted: rows that are there are verified: foreign keys here, checks by the caller.

    Raises:
        SqlError: 547 when a row violates a foreign key that is to be trusted.
    """
    folded = {name.casefold() for name in names}
    with ddl_scope(target, database, table) as connection:

        def switched(constraint: Switched) -> Switched:
            if constraint.name.casefold() not in folded:
                return constraint
            return replace(constraint, is_disabled=disable, is_not_trusted=disable or not trusted)

        changed = replace(
            table,
            foreign_keys=tuple(switched(key) for key in table.foreign_keys),
            checks=tuple(switched(check) for check in table.checks),
        )
        for key in changed.foreign_keys:
            if trusted and not disable and key.name.casefold() in folded:
                refuse_orphans(connection, database, table, key)
        return replace_table(target, connection, database, changed, "other", command)


def drop_constraint(
    target: DdlTarget, database: Database, table: Table, name: str, *, command: str = ""
) -> Table:
    """Drop a key, foreign key, check or default constraint by name; returns the new Table.

    Raises:
        SqlError: 3728 when the table has no constraint of that name.
    """
    folded = name.casefold()
    if any(
        i.name.casefold() == folded and (i.primary_key or i.unique_constraint)
        for i in table.indexes
    ):
        return drop_index(target, database, table, name, command=command)
    with ddl_scope(target, database, table) as connection:
        changed = replace(
            table,
            foreign_keys=tuple(k for k in table.foreign_keys if k.name.casefold() != folded),
            checks=tuple(c for c in table.checks if c.name.casefold() != folded),
            columns=tuple(
                replace(c, default=None, default_name=None)
                if (c.default_name or "").casefold() == folded
                else c
                for c in table.columns
            ),
        )
        if changed == table:
            raise messages.error(3728, name)
        return replace_table(target, connection, database, changed, "other", command)


def set_default(
    target: DdlTarget, database: Database, table: Table, column_id: int, name: str, default: str, *,
    command: str = "",
) -> Table:  # fmt: skip
    """ALTER TABLE .. ADD CONSTRAINT name DEFAULT .. FOR column; returns the new Table."""
    with ddl_scope(target, database, table) as connection:
        columns = tuple(
            replace(c, default=default, default_name=name) if c.column_id == column_id else c
            for c in table.columns
        )
        changed = replace(table, columns=columns)
        return replace_table(target, connection, database, changed, "other", command)


def _constraint_names(database: Database, schema: str) -> set[str]:
    names: set[str] = set()
    for table in database.tables():
        if table.schema.casefold() != schema.casefold():
            continue
        names.update(key.name.casefold() for key in table.foreign_keys)
        names.update(check.name.casefold() for check in table.checks)
        names.update(
            i.name.casefold() for i in table.indexes if i.primary_key or i.unique_constraint
        )
    return names
